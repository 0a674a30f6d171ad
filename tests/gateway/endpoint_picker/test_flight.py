"""A request's flight has one ending, in whatever order things are heard of it."""

import random
from pathlib import Path

import pytest

from gateway.endpoint_picker.asked import asked_in
from gateway.endpoint_picker.flight import Flight
from gateway.endpoint_picker.picker import Picker as Picking
from protos.errors import ReplicaDraining
from protos.token_counts import TokenCounts
from routing.contracts.policy import Ended, Report, Routed
from tests.gateway.endpoint_picker.pickers import Picker, picker


class Reports:
    """Stands before the policy and counts its reports."""

    def __init__(self, running: Picker) -> None:
        self.routed = self.ended = 0
        context = running.model.dispatch_context
        before = context._observe

        def observe(report: Report) -> None:
            self.routed += isinstance(report, Routed)
            self.ended += isinstance(report, Ended)
            before(report)

        context._observe = observe


def one_thing(rng: random.Random, running: Picker, flight: Flight) -> None:
    """Let the flight hear of something that may come at any time."""
    endpoints = [*running.upstreams, "10.1.1.1:1", ""]
    thing = rng.randrange(7)
    if thing == 0:
        flight.begins()
    elif thing == 1:
        flight.served(rng.choice(endpoints))
    elif thing == 2:
        flight.heard(rng.randrange(50), rng.choice([None, TokenCounts(100, 10, 50), TokenCounts(None, None)]))
    elif thing == 3:
        flight.ends(rng.choice([200, 400, 429, 500, 503]))
    elif thing == 4:
        flight.close()
    elif thing == 5:
        for connection in running.model.fleet._connections.values():
            connection.fail_streams(ReplicaDraining("The replica is being drained."))


@pytest.mark.parametrize("seed", range(6))
async def test_it_ends_once_whatever_is_heard(state_dir: Path, seed: int) -> None:
    rng = random.Random(seed)
    async with picker(state_dir, 3) as running:
        reports, flights = Reports(running), []
        asked = asked_in(b'{"prompt": "%b", "n": 2}' % (b"hello " * 200))
        for _ in range(40):
            # Faults of one endpoint must not leave none.
            for connection in running.model.fleet._connections.values():
                connection.health.breaker.close(0.0)
            running.model.fleet._refresh()
            picked = await Picking().pick(running.model, asked, None, "")
            flights.append(picked.flight)
            for _ in range(rng.randrange(8)):
                one_thing(rng, running, rng.choice(flights))
        for flight in flights:
            flight.close()
            flight.close()
        assert reports.routed >= 40
        assert reports.ended == reports.routed
        running.nothing_is_left()
        for connection in running.model.fleet._connections.values():
            assert connection._sequences == connection._tokens == connection._prefill == 0
            assert connection._sent == connection._sent_prompt == connection._sent_kv == 0


async def test_two_requests_with_one_id_are_told_apart(state_dir: Path) -> None:
    async with picker(state_dir, 1) as running:
        asked = asked_in(b'{"prompt": "hello"}')
        flights = [(await Picking().pick(running.model, asked, None, "same" * 100)).flight for _ in range(2)]
        ids = [flight._submit.request_id for flight in flights]
        for flight in flights:
            flight.close()
        assert len(set(ids)) == 2
        assert all(one.startswith("samesame") and len(one) < 100 for one in ids)
        running.nothing_is_left()
