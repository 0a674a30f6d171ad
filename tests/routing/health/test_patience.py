import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.health import patience
from routing.health.patience import TICK_SECONDS, Patience, exhausted
from tests.loops import leftovers


@given(seconds=st.floats(0.01, 60.0), renewals=st.lists(st.integers(0, 20), max_size=20))
def test_it_lasts_as_long_as_it_says_after_the_last_renewal_and_a_tick_more_at_most(
    seconds: float, renewals: list[int]
) -> None:
    patient = Patience(seconds)
    for ticks in renewals:
        for _ in range(min(ticks, patient._ticks - 1)):
            assert not patient.tick()
        patient.renew()
    ticks = 1
    while not patient.tick():
        ticks += 1
    # The first tick comes right after the renewal, or nearly a whole tick later.
    assert (ticks - 1) * TICK_SECONDS >= seconds
    assert (ticks - 1) * TICK_SECONDS < seconds + TICK_SECONDS


def test_it_begins_anew_when_it_is_over() -> None:
    patient = Patience(1.0)
    assert [patient.tick() for _ in range(10)] == [False, False, False, False, True] * 2


async def test_a_stall_of_the_loop_counts_as_one_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "TICK_SECONDS", 0.01)

    patient = Patience(0.05)
    waiting = asyncio.create_task(exhausted(patient))
    for _ in range(2):
        await asyncio.sleep(0.015)
        time.sleep(0.2)  # noqa: ASYNC251 (a stall is what is tested)
        await asyncio.sleep(0)
        assert not waiting.done()
        patient.renew()
    await waiting
    assert not leftovers()
