"""How workers are kept running, and how they are told to end."""

from gateway.server.worker_server import MAX_WORKER_RESTARTS, WORKER_RESTARTS_SECONDS, Restarts


def crashes(*moments: float, worker: int = 0) -> Restarts:
    restarts = Restarts()
    for moment in moments:
        restarts.clear()
        restarts[worker] = moment
    return restarts


def test_a_worker_that_dies_now_and_then_is_no_crash_loop() -> None:
    assert not crashes(*range(MAX_WORKER_RESTARTS - 1))
    slowly = [number * WORKER_RESTARTS_SECONDS / (MAX_WORKER_RESTARTS - 1) for number in range(50)]
    assert not crashes(*slowly)


def test_a_worker_that_dies_again_at_once_is_one() -> None:
    moments = [10.0 + number for number in range(MAX_WORKER_RESTARTS)]
    assert crashes(*moments) == {0: moments[-1]}


def test_each_worker_has_restarts_of_its_own() -> None:
    restarts = Restarts()
    for number in range(MAX_WORKER_RESTARTS - 1):
        for worker in range(4):
            restarts[worker] = float(number)
    assert not restarts
    restarts[2] = float(MAX_WORKER_RESTARTS)
    assert list(restarts) == [2]
