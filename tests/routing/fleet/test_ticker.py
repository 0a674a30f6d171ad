import asyncio
import logging

import pytest

from routing.fleet import ticker
from routing.fleet.fleet import Fleet
from routing.fleet.ticker import Ticker
from routing.transports.shared_parts import SharedParts
from tests.loops import leftovers, until


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker, "TICK_SECONDS", 0.001)


async def test_a_tick_that_fails_keeps_nobody_from_theirs(caplog: pytest.LogCaptureFixture) -> None:
    ticks = 0

    def good() -> None:
        nonlocal ticks
        ticks += 1

    def bad() -> None:
        raise RuntimeError("bad")

    with caplog.at_level(logging.ERROR):
        clock = Ticker()
        clock.join(bad)
        clock.join(good)
        await until(lambda: ticks > 3)
        clock.leave(good)
        before = ticks
        await asyncio.sleep(0.01)
        assert ticks == before
        await clock.aclose()
    assert "bad" in caplog.text


async def test_hundreds_of_fleets_have_one_timer_which_the_last_one_ends() -> None:
    shared = SharedParts()
    fleets = [Fleet([], "w", shared=shared) for _ in range(300)]
    for fleet in fleets:
        fleet.start()
    assert len(leftovers()) == 1
    judged = [fleet._judged_at for fleet in fleets]
    for fleet in fleets:
        fleet._judged_at -= 10.0
    await until(lambda: all(fleet._judged_at > before for fleet, before in zip(fleets, judged, strict=True)))
    for fleet in fleets[1:]:
        await fleet.aclose()
    assert len(leftovers()) == 1
    await fleets[0].aclose()
    assert not leftovers()
