import asyncio

import pytest

from gateway.scaling.intents import Intent
from gateway.scaling.launcher_calls import LauncherCalls
from protos.types import Role, Shape
from tests.gateway.scaling.scaled import FakeLauncher

PLACE = ("m", "p")


def intent(id_: str) -> Intent:
    return Intent(id=id_, model="m", pool="p", shape=Shape(tp=1), role=Role.BOTH, version="", spot=False, made=0.0)


async def test_a_launcher_that_hangs_is_given_up_after_its_bound_and_asked_again() -> None:
    now = [100.0]
    launcher = FakeLauncher()
    calls = LauncherCalls("local", launcher, lambda: now[0], call_seconds=0.05)
    launcher.answers.clear()
    calls.look()
    now[0] += 30.0
    assert calls.unreachable(PLACE) == "the launcher has not answered to observe for 30 s"
    # While it hangs nothing else is asked.
    calls.look()
    calls.act([], {"p-1": 0.0}, lambda: True)
    await calls.finished(5.0)
    assert await calls.answered() is None
    assert calls.unreachable(PLACE) == "observe: no answer within 0 s"
    assert launcher.stops == []
    launcher.answers.set()
    calls.look()
    assert await calls.answered() == []
    assert (calls.problem(PLACE), calls.errors) == ("", 1)


async def test_an_answer_is_heard_once() -> None:
    calls = LauncherCalls("local", FakeLauncher())
    calls.look()
    assert await calls.answered() == []
    assert await calls.answered() is None


async def test_whatever_a_launcher_raises_is_a_problem_and_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FakeLauncher):
        async def _called(self) -> None:
            raise ZeroDivisionError("nonsense")

    calls = LauncherCalls("local", Broken())
    calls.look()
    assert await calls.answered() is None
    assert calls.problem(PLACE) == "observe: ZeroDivisionError: nonsense"


async def test_the_log_has_each_start_and_stop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    calls = LauncherCalls("local", FakeLauncher())
    calls.act([intent("p-1"), intent("p-2")], {"p-3": 5.0}, lambda: True)
    await calls.finished(5.0)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["the local launcher starts p-1, p-2", "the local launcher stops p-3 within 5 s"]


async def test_nothing_is_begun_that_may_not_be() -> None:
    launcher = FakeLauncher()
    calls = LauncherCalls("local", launcher)
    calls.act([], {"p-1": 0.0}, lambda: False)
    await calls.finished(5.0)
    assert launcher.stops == []


async def test_it_ends_in_the_middle_of_a_call() -> None:
    launcher = FakeLauncher()
    launcher.answers.clear()
    calls = LauncherCalls("local", launcher)
    calls.look()
    await asyncio.sleep(0)
    await calls.aclose()
