import asyncio

from gateway.scaling.launcher_calls import PATIENCE_SECONDS, LauncherCalls
from tests.gateway.scaling.scaled import FakeLauncher


async def test_an_answer_that_comes_between_two_rounds_is_heard_in_the_next_one() -> None:
    launcher = FakeLauncher()
    launcher.answers.clear()
    calls = LauncherCalls("local", launcher)
    calls.look()
    assert await calls.answered() is None, "it takes longer than a round waits"
    launcher.answers.set()
    await calls.finished(PATIENCE_SECONDS)
    calls.look()
    assert await calls.answered() == []
    calls.look()
    await asyncio.sleep(0)
    assert await calls.answered() == [], "and then it is asked again"
    await calls.aclose()
