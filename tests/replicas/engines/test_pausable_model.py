"""A model whose limits change between steps: every sequence ends once, and no block stays behind."""

from hypothesis import given, settings
from hypothesis import strategies as st

from replicas.engine_limits import CapacityPolicy, Limits
from replicas.engines.pausable_model import PausableModel
from replicas.sequence import Phase, Sequence
from replicas.timing import FixedTimer

#: The narrowest holds any one of the sequences below.
BLOCKS = (12, 24, 48)


def limits_of(width: int, policy: CapacityPolicy) -> Limits:
    return Limits(BLOCKS[width], tokens_per_block=4, max_batch_size=8, max_num_tokens=16, policy=policy)


def step(model: PausableModel[Sequence], now: float) -> list[Sequence]:
    return model.end(now + 1.0) if model.begin(now) is not None else []


def test_a_paused_model_begins_no_step() -> None:
    model: PausableModel[Sequence] = PausableModel(limits_of(0, CapacityPolicy.GUARANTEED_NO_EVICT), FixedTimer(1.0))
    model.submit([Sequence(prompt=4, steps=3, limit=3)], 0.0)
    model.paused = True
    assert model.begin(0.0) is None
    assert model.looked.is_set()
    model.paused = False
    assert model.begin(0.0) == 1.0


def test_what_a_running_prompt_has_computed_can_be_published() -> None:
    model: PausableModel[Sequence] = PausableModel(limits_of(2, CapacityPolicy.GUARANTEED_NO_EVICT), FixedTimer(1.0))
    one = Sequence(prompt=40, steps=3, limit=3, chain=range(1, 11))
    model.submit([one], 0.0)
    step(model, 0.0)
    assert one.phase is Phase.PREFILL
    assert model.cache.reusable == frozenset()
    for _ in model.publish():
        pass
    assert model.cache.reusable == frozenset(range(1, 5))


@settings(max_examples=200)
@given(
    st.sampled_from(CapacityPolicy),
    st.lists(
        st.one_of(
            st.tuples(st.just("step"), st.just(0), st.just(0)),
            st.tuples(st.just("change"), st.integers(0, 2), st.just(0)),
            st.tuples(st.just("publish"), st.just(0), st.just(0)),
            st.tuples(st.just("submit"), st.integers(1, 30), st.integers(1, 12)),
            st.tuples(st.just("group"), st.integers(1, 20), st.integers(1, 12)),
            st.tuples(st.just("cancel"), st.integers(0, 5), st.just(0)),
        ),
        max_size=60,
    ),
)
def test_every_sequence_ends_once_however_limits_change(
    policy: CapacityPolicy, story: list[tuple[str, int, int]]
) -> None:
    model: PausableModel[Sequence] = PausableModel(limits_of(0, policy), FixedTimer(1.0))
    open_: list[list[Sequence]] = []
    ended: list[Sequence] = []
    expected, now = 0, 0.0
    for what, first, second in story:
        if what == "step":
            ended += step(model, now)
        elif what == "change":
            model.change(limits_of(first, policy), FixedTimer(1.0), now)
        elif what == "publish":
            for _ in model.publish():
                pass
        elif what == "cancel":
            if open_:
                group = open_.pop(first % len(open_))
                expected -= sum(sequence not in ended for sequence in group)
                model.cancel(group, now)
        else:
            count = 3 if what == "group" else 1
            chain = range(100 * len(open_), 100 * len(open_) + first // 4)
            open_.append([Sequence(prompt=first, steps=second, limit=second, chain=chain) for _ in range(count)])
            model.submit(open_[-1], now)
            expected += count
        now += 1.0
    for _ in range(2000):
        if not model.unfinished and not model.load.waiting:
            break
        ended += step(model, now)
        now += 1.0
    ended += step(model, now)
    assert len(ended) == len(set(map(id, ended))) == expected
    assert (model.cache.used, model.reserved) == (0, 0)
    load = model.load
    assert (load.running, load.waiting, load.tokens_in_flight, load.prefill_tokens) == (0, 0, 0, 0)
