"""Turns of workers over a real store."""

from gateway.rollouts.shadow.shadow_turns import ENROLLED_SECONDS, TURN_SECONDS, ShadowTurns
from tests.stores import running


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


async def test_workers_take_turns_of_which_nobody_misses_one(store_url: str) -> None:
    async with running(store_url) as store:
        # Their own clocks have nothing in common.
        clocks = [Clock(1000.0 * number) for number in range(5)]
        workers = [ShadowTurns(store, f"worker-{number}", 2, clock) for number, clock in enumerate(clocks)]
        assert not any(worker.is_due for worker in workers)
        for _ in range(2):
            for worker in workers:
                await worker.enrol()
        assert {worker.workers for worker in workers} == {5}
        dues: list[int] = []
        # Turns begin with the store's seconds, and two workers may not agree on a moment by what a round trip takes.
        start = workers[0]._offset
        into = 0.5 - (clocks[0].now + start) % TURN_SECONDS
        for step in range(4):
            for number, clock in enumerate(clocks):
                clock.now = 1000.0 * number + into + step * TURN_SECONDS
            dues += [number for number, worker in enumerate(workers) if worker.is_due]
        assert len(dues) == len(set(dues)) == 4


async def test_a_worker_that_is_gone_has_no_turn(store_url: str) -> None:
    async with running(store_url) as store:
        clock = Clock(0.0)
        one = ShadowTurns(store, "worker-1", 4, clock)
        await one.enrol()
        assert one.workers == 1
        assert one.is_due
        # Whoever did not enrol again knows nothing of its turn.
        clock.now = ENROLLED_SECONDS
        assert not one.is_due
