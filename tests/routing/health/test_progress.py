from routing.health.patience import TICK_SECONDS
from routing.health.progress import IDLE_SECONDS, WEDGED_SECONDS, Progress

WEDGED_TICKS = round(WEDGED_SECONDS / TICK_SECONDS)
IDLE_TICKS = round(IDLE_SECONDS / TICK_SECONDS)


def ticks(progress: Progress, count: int, *, busy: bool) -> bool:
    return True in [progress.tick(busy) for _ in range(count)]


def test_an_engine_with_requests_that_makes_no_step_is_wedged() -> None:
    progress = Progress()
    progress.reported(7)
    assert not ticks(progress, WEDGED_TICKS, busy=True)
    assert ticks(progress, 1, busy=True)
    assert not ticks(progress, WEDGED_TICKS, busy=True), "it is given as long again"


def test_each_step_gives_it_its_time_again() -> None:
    progress = Progress()
    for steps in range(5):
        progress.reported(steps)
        assert not ticks(progress, WEDGED_TICKS, busy=True)
    progress.renew()
    assert not ticks(progress, WEDGED_TICKS, busy=True)


def test_an_engine_without_requests_is_never_wedged_but_idle() -> None:
    progress = Progress()
    progress.reported(1)
    assert not ticks(progress, IDLE_TICKS, busy=False)
    idle = [progress.idle]
    assert not ticks(progress, IDLE_TICKS, busy=False)
    idle.append(progress.idle)
    assert progress.reported(2)
    assert [*idle, progress.idle] == [False, True, False]


def test_what_it_did_before_the_session_is_no_progress() -> None:
    progress = Progress()
    assert not progress.reported(1000)
    assert not progress.reported(1000)
    assert progress.reported(1001)
    progress.begin()
    assert not progress.reported(5)
