"""Steps done at once are the same steps: a run with `forward` beside one without it."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import KvRemoved, KvStored, Load, Shape
from replicas.engine_limits import CapacityPolicy, Limits
from replicas.model import ReplicaModel
from replicas.profiles import PROFILES
from replicas.sequence import Sequence
from replicas.timing import Batch, FixedTimer, RooflineTimer, Series, StepTimer

GNE, MAX = CapacityPolicy.GUARANTEED_NO_EVICT, CapacityPolicy.MAX_UTILIZATION
ROOFLINE = RooflineTimer(PROFILES["mixtral-8x7b"], Shape(tp=4))


@dataclass(slots=True, eq=False, kw_only=True)
class Named(Sequence):
    """Its answer's blocks have names of their own."""

    number: int

    def further_blocks(self, count: int) -> list[int]:
        return [-(1000 * self.number + len(self.hashes) + i + 1) for i in range(count)]


@dataclass
class Driver:
    """A model and the clock of the step that it is in."""

    model: ReplicaModel[Named]
    jumps: bool
    due: float | None = None
    jumped: int = 0
    reusable: set[int] = field(default_factory=set)

    def advance(self, until: float) -> None:
        while self.due is not None and self.due <= until:
            now = self.due
            self.model.end(now)
            if self.jumps:
                steps, now = self.model.forward(now, until)
                self.jumped += steps
                assert now <= until
            self.begin(now)

    def begin(self, now: float) -> None:
        seconds = self.model.begin(now)
        self.due = None if seconds is None else now + seconds
        for event in self.model.cache.drain_events():
            match event.data:
                case KvStored(_, stored):
                    self.reusable |= {block for block, _ in stored}
                case KvRemoved(hashes):
                    self.reusable -= set(hashes)

    def submit(self, group: list[Named], now: float) -> None:
        self.model.submit(group, now)
        if self.due is None:
            self.begin(now)


def driver(limits: Limits, timer: StepTimer, jumps: bool) -> Driver:
    return Driver(ReplicaModel(limits, timer), jumps)


def same(a: float | None, b: float | None) -> bool:
    return a == b if a is None or b is None else abs(a - b) < 1e-6


def assert_same(one: Named, other: Named) -> None:
    assert (one.phase, one.cached, one.produced) == (other.phase, other.cached, other.produced)
    assert same(one.admitted, other.admitted)
    assert same(one.first_token, other.first_token)
    assert same(one.ended, other.ended)


PLAN = st.tuples(
    st.integers(1, 40),  # prompt
    st.integers(1, 60),  # steps
    st.integers(0, 10),  # how much more it may ask for
    st.integers(1, 3),  # sequences
    st.booleans(),  # whether its prompt begins as others' do
    st.booleans(),  # transferred
    st.integers(0, 400),  # submitted, in 1/1024 s
    st.none() | st.integers(0, 400),  # cancelled, in 1/1024 s
)
TIMERS: list[StepTimer] = [ROOFLINE, FixedTimer(2**-8), FixedTimer(0.0)]


@given(
    st.lists(PLAN, min_size=1, max_size=8),
    st.sampled_from([GNE, MAX]),
    st.sampled_from(TIMERS),
    st.integers(28, 60),
    st.integers(4, 40),
    st.lists(st.integers(0, 600), max_size=6),
)
def test_steps_done_at_once_are_the_same_steps(
    plans: list[tuple[int, int, int, int, bool, bool, int, int | None]],
    policy: CapacityPolicy,
    timer: StepTimer,
    blocks: int,
    tokens: int,
    looks: list[int],
) -> None:
    limits = Limits(blocks, tokens_per_block=4, max_batch_size=4, max_num_tokens=tokens, policy=policy)
    runs = []
    for jumps in (False, True):
        run = driver(limits, timer, jumps)
        groups = []
        for number, (prompt, steps, more, n, shared, transferred, _, _) in enumerate(plans):
            chain = range(1, prompt // 4 + 1) if shared else range(100 * number + 100, 100 * number + 100 + prompt // 4)
            groups.append(
                [
                    Named(
                        prompt=prompt,
                        steps=steps,
                        limit=steps + more,
                        chain=chain,
                        transferred=transferred,
                        number=10 * number + k,
                    )
                    for k in range(n)
                ]
            )
        # Nothing here is rounded with fixed steps, so that rounding does not decide what comes first.
        moments = [(plan[6], 0, number) for number, plan in enumerate(plans)]
        moments += [(max(plan[6], plan[7]), 1, number) for number, plan in enumerate(plans) if plan[7] is not None]
        moments += [(look, 2, 0) for look in looks]
        seen: list[Load] = []
        for at, kind, number in sorted(moments):
            run.advance(at / 1024)
            seen.append(run.model.load)
            if kind == 0:
                run.submit(groups[number], at / 1024)
            elif kind == 1:
                run.model.cancel(groups[number], at / 1024)
        run.advance(1e9)
        runs.append((run, groups, seen))
    (stepwise, expected, loads), (at_once, got, loads_at_once) = runs
    for group, same_group in zip(expected, got, strict=True):
        for one, other in zip(group, same_group, strict=True):
            assert_same(one, other)
    assert loads == loads_at_once
    assert stepwise.model.clock == at_once.model.clock
    assert stepwise.model.cache.reusable == at_once.model.cache.reusable == at_once.reusable == stepwise.reusable


def test_most_steps_of_long_answers_are_done_at_once() -> None:
    run = driver(Limits(1000, tokens_per_block=4), ROOFLINE, True)
    run.submit([Named(prompt=100, steps=500, limit=500, number=1)], 0.0)
    run.submit([Named(prompt=50, steps=800, limit=800, number=2)], 0.0)
    run.advance(1e9)
    assert run.model.clock == 801
    assert run.jumped > 780


def test_steps_stop_at_the_moment_asked_for() -> None:
    run = driver(Limits(1000, tokens_per_block=4), FixedTimer(1.0), True)
    run.submit([Named(prompt=10, steps=500, limit=500, number=1)], 0.0)
    run.advance(100.5)
    assert run.model.clock == 100
    assert run.due == 101.0
    assert run.model.work is not None
    assert run.model.work.us == 1_000_000


@pytest.mark.parametrize("sequences", [1, 7, 300])
@pytest.mark.parametrize("speed", [1.0, 8.0])
def test_a_series_is_what_single_steps_take(sequences: int, speed: float) -> None:
    timer = RooflineTimer(PROFILES["llama-3.1-8b"], Shape(tp=2), speed=speed)
    series = timer.decode_series(sequences, 1000)
    total = 0.0
    for step in range(50):
        assert series.steps_within(total * (1 + 1e-12), 100) == step
        batch = Batch(decode=sequences, decode_context=1000 + step * sequences, outputs=sequences)
        total += timer.step_seconds(batch)
        assert series.seconds(step + 1) == pytest.approx(total, rel=1e-12)
    assert series.steps_within(float("inf"), 17) == 17


@given(st.floats(1e-4, 1), st.floats(0, 1), st.floats(0, 1000), st.integers(1, 100_000))
def test_as_many_steps_as_there_is_time_for(first: float, growth: float, seconds: float, most: int) -> None:
    series = Series(first, growth * first)
    steps = series.steps_within(seconds, most)
    assert 0 <= steps <= most
    assert series.seconds(steps) <= seconds
    assert steps == most or series.seconds(steps + 1) > seconds
