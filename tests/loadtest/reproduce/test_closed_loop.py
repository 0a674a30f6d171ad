"""Clients that wait for their answers: as many under way as there are clients, and each request once."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.reproduce.closed_loop import ClosedLoop
from loadtest.simulation.flight import Outcome
from loadtest.simulation.simulated_fleet import Fleet, Pool, PoolShape
from loadtest.simulation.simulated_requests import TimedRequest
from routing.policies.least_load import LeastLoad

FLEET = Fleet((Pool("a", PoolShape(tp=2), replicas=2),))


@settings(max_examples=25, deadline=None)
@given(clients=st.integers(1, 9), requests=st.integers(1, 30), seed=st.integers(0, 5))
def test_never_more_under_way_than_clients(clients: int, requests: int, seed: int) -> None:
    ended: list[Outcome] = []
    arrivals: list[float] = []

    def note(outcome: Outcome) -> bool:
        ended.append(outcome)
        return False

    loop = ClosedLoop(FLEET, LeastLoad, max_tokens=64, give_up=note)

    def draw(now: float) -> TimedRequest:
        arrivals.append(now)
        assert len(arrivals) - len(ended) <= clients
        return TimedRequest(now, 100, 1 + (len(arrivals) * 7 + seed) % 20)

    rate = loop.throughput(draw, clients, requests)
    assert rate > 0
    assert len(arrivals) == len(ended) == requests
    assert Counter(arrivals)[0.0] == min(clients, requests)
    assert arrivals == sorted(arrivals)


def test_one_client_waits_for_each_answer() -> None:
    def throughput(requests: int) -> float:
        return ClosedLoop(FLEET, LeastLoad, max_tokens=64).throughput(
            lambda now: TimedRequest(now, 100, 20), 1, requests
        )

    assert abs(throughput(8) / throughput(1) - 1) < 1e-6
