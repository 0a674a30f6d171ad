"""Whole simulations, beside what they must equal."""

import heapq
import random
from collections.abc import Sequence
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.simulation.baselines.dynamo_kv import DynamoKv
from loadtest.simulation.simulate import Result, simulate
from loadtest.simulation.simulated_fleet import Fleet, Pool, PoolShape
from loadtest.simulation.simulated_requests import TimedRequest
from protos.types import Role
from replicas.model import ReplicaModel
from replicas.sequence import Sequence as ModelSequence
from replicas.timing import RooflineTimer
from routing.contracts.policy import (
    Decision,
    Ended,
    NoCandidate,
    ReplicaView,
    Report,
    Routed,
    RouteRequest,
    Score,
    Stepped,
)
from routing.contracts.units import units
from routing.policies.least_load import LeastLoad
from routing.policies.round_robin import RoundRobin

TWO = PoolShape(tp=2)
PAIR = Fleet((Pool("p", TWO, Role.PREFILL), Pool("d", TWO, Role.DECODE)))


class Spy:
    """Takes replicas in turn and keeps all that it is told."""

    uses_prefixes = True

    def __init__(self) -> None:
        self.asked: list[tuple[RouteRequest, list[ReplicaView]]] = []
        self.reports: list[Report] = []

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        self.asked.append((request, list(candidates)))
        found = units(candidates)
        return found[(len(self.asked) - 1) % len(found)].decision("in turn")

    def observe(self, report: Report) -> None:
        self.reports.append(report)

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        raise NotImplementedError


def requests_of(count: int, seed: int, rate: float = 20.0) -> list[TimedRequest]:
    """Some prompts are long, some begin alike, some answers have one token."""
    rng = random.Random(seed)
    now, found = 0.0, []
    for number in range(count):
        now += rng.expovariate(rate)
        prompt = rng.choice((20, 300, 3000, 20_000))
        own = [1000 * (number + 1) + place for place in range(prompt // 32)]
        chain = [*range(rng.choice((0, 5, 50))), *own][: prompt // 32]
        found.append(TimedRequest(now, prompt, rng.choice((1, 2, 30, 400)), chain))
    return found


def one_by_one(fleet: Fleet, requests: list[TimedRequest], max_tokens: int) -> list[tuple[float, float]]:
    """When each request got its first and last token, replicas taken in turn, with one step after another."""
    models: list[ReplicaModel[ModelSequence]] = []
    for pool in fleet.pools:
        timer = RooflineTimer(fleet.sizes, pool.value)
        models += [ReplicaModel(fleet.limits(pool), timer) for _ in range(pool.replicas)]
    pending: list[tuple[float, int, int]] = [(r.arrival, -1, number) for number, r in enumerate(requests)]
    heapq.heapify(pending)
    stepping = [False] * len(models)
    turn, sequences = cycle(range(len(models))), []
    while pending:
        now, kind, k = heapq.heappop(pending)
        if kind < 0:
            request, k = requests[k], next(turn)
            limit = max(max_tokens, request.output_tokens)
            sequences.append(ModelSequence(request.prompt_tokens, request.output_tokens, limit, chain=request.chain))
            models[k].submit([sequences[-1]], now)
            if stepping[k]:
                continue
        else:
            models[k].end(now)
        seconds = models[k].begin(now)
        stepping[k] = seconds is not None
        if seconds is not None:
            heapq.heappush(pending, (now + seconds, 1, k))
    return [(s.first_token or 0.0, s.ended) for s in sequences]


@pytest.mark.parametrize("seed", range(3))
def test_a_simulation_is_what_single_steps_give(seed: int) -> None:
    fleet = Fleet((Pool("a", TWO, replicas=2), Pool("b", PoolShape(tp=4), kv_blocks=2000)))
    requests = requests_of(150, seed)
    result = simulate(fleet, requests, RoundRobin, max_tokens=64)
    expected = one_by_one(fleet, requests, 64)
    got = sorted(result.outcomes, key=lambda outcome: outcome.arrival)
    assert len(got) == len(expected)
    for outcome, request, (first, ended) in zip(got, requests, expected, strict=True):
        assert outcome.ttft == pytest.approx(first - request.arrival, abs=1e-6)
        tpot = (ended - first) / (request.output_tokens - 1) if request.output_tokens > 1 else None
        assert outcome.tpot == (None if tpot is None else pytest.approx(tpot, abs=1e-6))


def test_a_pair_computes_prompts_on_one_side_and_answers_on_the_other() -> None:
    result = simulate(PAIR, [TimedRequest(0.0, 4000, 50, []), TimedRequest(9.0, 4000, 1, [])], LeastLoad)
    long, short = result.outcomes
    assert (long.prefill, long.replica) == ("p-0", "d-0")
    assert long.ttft == pytest.approx(short.ttft)
    prefill, decode = result.replicas
    assert (prefill.steps, decode.steps) == (2, 49)
    assert long.ttft is not None
    assert prefill.busy == pytest.approx(2 * long.ttft)
    # The KV cache of 4,000 tokens takes 4 ms to move.
    assert long.tpot == pytest.approx((decode.busy + 4000 * 65536 / 64e9) / 49, rel=0.01)


def test_a_policy_sees_the_last_finished_step_and_what_was_sent_since() -> None:
    spy = Spy()
    fleet = Fleet((Pool("a", TWO),))
    requests = [TimedRequest(at, 1000, 40, []) for at in (0.0, 0.001, 0.002, 1.0)]
    simulate(fleet, requests, lambda: spy, max_tokens=64)
    views = [views[0] for _, views in spy.asked]
    assert [(v.sent, v.sent_prompt_tokens, v.sent_kv_tokens) for v in views] == [
        (0, 0, 0),
        (1, 1000, 1064),
        (2, 2000, 2128),
        (0, 0, 0),
    ]
    assert all(view.load.running == view.load.waiting == 0 for view in views)
    assert views[3].load.steps > 40
    assert views[0].load.workers == 1
    assert [request.now for request, _ in spy.asked] == [0.0, 0.001, 0.002, 1.0]


def test_load_counts_what_runs_and_waits() -> None:
    spy = Spy()
    fleet = Fleet((Pool("a", TWO),))
    simulate(fleet, [TimedRequest(at, 20_000, 400, []) for at in (0.0, 0.0, 0.3)], lambda: spy)
    load = spy.asked[2][1][0].load
    assert load.running + load.waiting == 2
    assert 0 < load.prefill_tokens < 40_000
    assert load.prefill_pairs > 0


def test_each_worker_knows_only_what_it_sent_itself() -> None:
    spies: list[Spy] = []

    def make() -> Spy:
        spies.append(Spy())
        return spies[-1]

    simulate(Fleet((Pool("a", TWO),)), [TimedRequest(0.0, 100, 5, [])] * 4, make, workers=2)
    assert [[views[0].sent for _, views in spy.asked] for spy in spies] == [[0, 1], [0, 1]]
    for spy in spies:
        assert spy.asked[0][1][0].load.workers == 2
        assert sum(isinstance(report, Ended) for report in spy.reports) == 2
        assert any(isinstance(report, Stepped) for report in spy.reports)


def test_what_a_policy_is_told_adds_up() -> None:
    spy = Spy()
    requests = requests_of(60, seed=5)
    result = simulate(Fleet((Pool("a", TWO, replicas=2),)), requests, lambda: spy, oracle=True)
    routed = [report.request.request_id for report in spy.reports if isinstance(report, Routed)]
    ended = [report for report in spy.reports if isinstance(report, Ended)]
    assert sorted(routed) == sorted(report.request.request_id for report in ended)
    for report in ended:
        number = int(report.request.request_id)
        assert report.request.expected_output == report.output_tokens == requests[number].output_tokens
        assert report.ttft == pytest.approx((report.timing.queue_us + report.timing.prefill_us) / 1e6, abs=2e-6)
    computed = sum(report.work.prefill_tokens for report in spy.reports if isinstance(report, Stepped))
    assert computed == sum(o.prompt_tokens - o.cached_tokens for o in result.outcomes)


def test_caches_are_known_as_in_life() -> None:
    spy = Spy()
    chain = list(range(1, 32))
    requests = [TimedRequest(float(at), 1000, 3, chain) for at in range(3)]
    fleet = Fleet((Pool("a", TWO, replicas=2),))
    result = simulate(fleet, requests, lambda: spy)
    # In turn: the third request is the first one that goes where its prompt has been before.
    assert [request.cached for request, _ in spy.asked] == [{}, {"a-0": 992}, {"a-0": 992, "a-1": 992}]
    assert [outcome.cached_tokens for outcome in result.outcomes] == [0, 0, 992]
    assert spy.asked[2][0].chain == chain


def test_the_learned_length_of_answers_is_what_came_so_far() -> None:
    spy = Spy()
    simulate(Fleet((Pool("a", TWO),)), [TimedRequest(10.0 * at, 100, 37, []) for at in range(40)], lambda: spy)
    expected = [request.expected_output for request, _ in spy.asked]
    assert expected[0] == 64  # nothing is known yet but the limit, the power of two that covers all answers
    assert expected[-1] == pytest.approx(37, rel=0.15)
    assert spy.asked[0][0].max_tokens == 64


class Refuses(Spy):
    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        raise NoCandidate("none")


def test_what_cannot_be_placed_is_refused() -> None:
    fleet = Fleet((Pool("a", TWO, kv_blocks=40), Pool("b", TWO, kv_blocks=20)))
    sizes = (2000, 1000, 600, 1000)
    requests = [TimedRequest(float(at), prompt, 1, []) for at, prompt in enumerate(sizes)]
    result = simulate(fleet, requests, RoundRobin)
    assert [(o.ttft is None, o.replica) for o in sorted(result.outcomes, key=lambda o: o.arrival)] == [
        (True, ""),
        (False, "a-0"),
        (False, "b-0"),
        (False, "a-0"),
    ]
    assert all(o.ttft is None for o in simulate(fleet, requests, Refuses).outcomes)


def test_a_run_may_be_given_up() -> None:
    requests = [TimedRequest(float(at), 100, 2, []) for at in range(50)]
    result = simulate(Fleet((Pool("a", TWO),)), requests, RoundRobin, give_up=lambda outcome: outcome.arrival == 5.0)
    assert not result.complete
    assert len(result.outcomes) == 6


FLEET = st.builds(
    lambda pools, pairs: Fleet(
        tuple(Pool(f"b{k}", PoolShape(tp=tp), replicas=n, kv_blocks=blocks) for k, (tp, n, blocks) in enumerate(pools))
        + tuple(Pool(role.value, TWO, role, replicas=pairs) for role in (Role.PREFILL, Role.DECODE) if pairs)
    ),
    st.lists(
        st.tuples(st.sampled_from([2, 4]), st.integers(1, 2), st.sampled_from([None, 900])), min_size=1, max_size=3
    ),
    st.integers(0, 2),
)


@settings(max_examples=40, deadline=None)
@given(FLEET, st.integers(0, 1000), st.sampled_from([5.0, 50.0, 1000.0]), st.sampled_from([LeastLoad, DynamoKv, Spy]))
def test_every_request_ends_once_and_in_order(fleet: Fleet, seed: int, rate: float, policy: type) -> None:
    requests = requests_of(40, seed, rate)
    result: Result = simulate(fleet, requests, policy, workers=1 + seed % 2)
    assert sorted(o.arrival for o in result.outcomes) == [r.arrival for r in requests]
    for outcome in result.outcomes:
        assert outcome.ttft is not None
        assert outcome.ttft > 0
        assert (outcome.tpot is None) == (outcome.output_tokens == 1)
        assert outcome.tpot is None or outcome.tpot > 0
        assert 0 <= outcome.cached_tokens < outcome.prompt_tokens
    for use in result.replicas:
        assert 0 <= use.busy <= result.seconds + 1e-6
