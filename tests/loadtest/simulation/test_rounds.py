"""Replicas that join, drain and go while a simulation runs."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.simulation.flight import Outcome
from loadtest.simulation.simulate import Simulation, simulate
from loadtest.simulation.simulated_fleet import Fleet, Pool, PoolShape
from loadtest.simulation.simulated_replica import Replica
from loadtest.simulation.simulated_requests import TimedRequest
from protos.types import Role, Work
from replicas.timing import RooflineTimer
from routing.contracts.policy_settings import PolicySettings
from routing.policies.auto import Auto

POOL = Pool("p", PoolShape(tp=2), replicas=1, kv_blocks=4000)
FLEET = Fleet((POOL,))


def requests_of(count: int, rate: float, seed: int = 1) -> list[TimedRequest]:
    rng, now, made = random.Random(seed), 0.0, []
    for number in range(count):
        now += rng.expovariate(rate)
        chain = [1000 * (number % 5) + block for block in range(8)]
        made.append(TimedRequest(now, rng.randint(300, 2000), rng.randint(1, 200), chain))
    return made


class Script:
    """Does at each time what a list says: join, drain the oldest, or take away what drains."""

    def __init__(self, actions: Sequence[tuple[float, str]], *, moves: bool = True) -> None:
        self._actions = sorted(actions)
        self._moves = moves
        self.draining: list[Replica] = []
        self.works: dict[str, int] = {}
        self.made = 0
        self.simulation: Simulation | None = None

    @property
    def due(self) -> float:
        return self._actions[0][0] if self._actions else float("inf")

    def hold(self, now: float) -> None:
        simulation = self.simulation
        assert simulation is not None
        _, action = self._actions.pop(0)
        if action == "join":
            self.made += 1
            timer = RooflineTimer(FLEET.sizes, POOL.value)
            replica = Replica(f"n-{self.made}", "p", POOL.value, Role.BOTH, FLEET.limits(POOL), timer)
            simulation.join(replica, now)
        elif action == "drain" and simulation.replicas:
            self.draining.append(simulation.replicas[0])
            simulation.drain(simulation.replicas[0])
        elif action == "take" and self.draining:
            simulation.remove(self.draining.pop(0), now, moves=self._moves)

    def stepped(self, replica: Replica, works: Sequence[Work]) -> None:
        self.works[replica.id] = self.works.get(replica.id, 0) + len(works)


def play(
    requests: Sequence[TimedRequest], script: Script, fleet: Fleet | None = FLEET, workers: int = 1
) -> list[Outcome]:
    simulation = Simulation(fleet, lambda: Auto(PolicySettings(seed=0)), max_tokens=256, workers=workers, rounds=script)
    script.simulation = simulation
    return simulation.run(requests).outcomes


def by_arrival(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: outcome.arrival)


def test_rounds_that_do_nothing_change_nothing() -> None:
    requests = requests_of(200, 8.0)
    plain = simulate(FLEET, requests, lambda: Auto(PolicySettings(seed=0)), max_tokens=256).outcomes
    looked = play(requests, Script([(float(second), "look") for second in range(1, 20)]))
    for one, other in zip(by_arrival(looked), by_arrival(plain), strict=True):
        # Steps that are done at once are cut at rounds, which rounds differently.
        assert [one.ttft, one.tpot or 0.0] == pytest.approx([other.ttft, other.tpot or 0.0], rel=1e-9)


def test_requests_wait_for_the_first_replica() -> None:
    outcomes = play(requests_of(20, 10.0), Script([(30.0, "join")]), fleet=None)
    assert len(outcomes) == 20
    assert all(outcome.ttft is not None and outcome.arrival + outcome.ttft > 30.0 for outcome in outcomes)


def test_a_replica_that_joins_takes_requests_and_one_that_drains_no_more() -> None:
    requests = requests_of(400, 20.0)
    script = Script([(5.0, "join"), (10.0, "drain")])
    outcomes = play(requests, script)
    by_replica = {name: [o.arrival for o in outcomes if o.replica == name] for name in ("p-0", "n-1")}
    assert min(by_replica["n-1"]) < 10.0 < max(by_replica["n-1"])
    # A request may have waited for a place before it was sent; none is sent after the drain.
    assert max(by_replica["p-0"]) <= 10.0
    assert script.works["n-1"] and script.works["p-0"]
    assert len(outcomes) == 400 and not any(outcome.ttft is None for outcome in outcomes)


def test_what_a_preempted_replica_had_moves_and_keeps_its_first_token() -> None:
    requests = [TimedRequest(0.0, 500, 200)]
    script = Script([(0.5, "join"), (1.0, "drain"), (1.0, "take")])
    alone = simulate(FLEET, requests, lambda: Auto(PolicySettings(seed=0)), max_tokens=256).outcomes[0]
    (moved,) = play(requests, script)
    assert moved.ttft == alone.ttft and moved.replica == "n-1"
    assert moved.tpot is not None and alone.tpot is not None
    # It computes its prompt and answer so far again, which delays it by no more than some steps.
    assert alone.tpot < moved.tpot < 1.5 * alone.tpot


def test_what_a_preempted_replica_had_is_lost_where_it_cannot_move() -> None:
    requests = [TimedRequest(0.0, 500, 200), TimedRequest(2.0, 500, 20)]
    script = Script([(0.5, "join"), (1.0, "drain"), (1.0, "take")], moves=False)
    outcomes = by_arrival(play(requests, script))
    assert [outcome.ttft is None for outcome in outcomes] == [True, False]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.1, 25.0), st.sampled_from(["join", "drain", "take"])), max_size=20),
    st.integers(1, 2),
)
def test_every_request_has_one_outcome_whatever_comes_and_goes(actions: list[tuple[float, str]], workers: int) -> None:
    requests = requests_of(120, 6.0)
    # In the end there is a replica for what still waits.
    outcomes = play(requests, Script([*actions, (26.0, "join")]), workers=workers)
    assert sorted(outcome.arrival for outcome in outcomes) == [request.arrival for request in requests]
    for outcome in outcomes:
        assert outcome.ttft is not None and outcome.ttft > 0
        assert (outcome.tpot is None) == (outcome.output_tokens == 1)
        assert outcome.tpot is None or outcome.tpot > 0


@pytest.mark.parametrize("when", [0.05, 0.4, 2.0])
def test_a_pair_that_loses_its_decode_side_goes_on_elsewhere(when: float) -> None:
    pair = Fleet((Pool("d", PoolShape(tp=2), Role.DECODE), Pool("a", PoolShape(tp=2), Role.PREFILL)))
    script = Script([(when, "join"), (when, "drain"), (when, "take")])
    outcomes = play(requests_of(30, 30.0), script, fleet=pair)
    assert len(outcomes) == 30 and not any(outcome.ttft is None for outcome in outcomes)


@pytest.mark.parametrize("when", [0.05, 0.4, 2.0])
def test_a_pair_that_loses_a_side_starts_again_elsewhere(when: float) -> None:
    pair = Fleet((Pool("a", PoolShape(tp=2), Role.PREFILL), Pool("d", PoolShape(tp=2), Role.DECODE)))
    requests = requests_of(30, 30.0)
    script = Script([(when, "join"), (when, "drain"), (when, "take"), (when + 0.1, "drain"), (when + 0.1, "take")])
    outcomes = play(requests, script, fleet=pair)
    assert len(outcomes) == 30 and not any(outcome.ttft is None for outcome in outcomes)
