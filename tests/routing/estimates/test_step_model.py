"""Step times are learned from a roofline that the model knows nothing of."""

import random
from math import log
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Shape, Work
from replicas.profiles import PROFILES
from replicas.timing import Batch, RooflineTimer
from routing.estimates.step_model import LEAST_FACTOR, MOST_FACTOR, NODES, StepModel

WORKS = st.builds(
    Work,
    us=st.integers(0, 2**32 - 1),
    prefill_tokens=st.integers(0, 2**32 - 1),
    prefill_pairs=st.integers(0, 2**63),
    sequences=st.integers(0, 2**32 - 1),
    context=st.integers(0, 2**63),
)


def some_batch(rng: random.Random) -> Batch:
    """Of serving: decoding sequences of some context, and in four of ten steps a piece of a prompt."""
    decode = int(rng.choice([0, 1, 2, 5, 10, 30, 60, 100]) * rng.uniform(0.5, 1.5))
    prefill = 0 if decode and rng.random() < 0.6 else 1 + int(min(8191.0, rng.lognormvariate(7.5, 1.0)))
    before = rng.choice([0, 0, 4_000, 20_000, 60_000])
    return Batch(
        decode=decode,
        decode_context=int(decode * rng.uniform(500, 10_000)),
        prefill=prefill,
        prefill_pairs=prefill * before + prefill * prefill // 2,
        outputs=decode + 1,
    )


def work_of(batch: Batch, seconds: float) -> Work:
    return Work(round(seconds * 1e6), batch.prefill, batch.prefill_pairs, batch.decode, batch.decode_context)


def errors(model: StepModel, timer: RooflineTimer, rng: random.Random) -> list[float]:
    found = []
    for _ in range(300):
        batch = some_batch(rng)
        seconds = model.seconds(batch.decode + batch.prefill, batch.decode_context, batch.prefill_pairs)
        found.append(abs(seconds / timer.step_seconds(batch) - 1.0))
    return sorted(found)


@pytest.mark.parametrize("profile", ["mixtral-8x7b", "llama-3.1-70b", "llama-3.1-8b"])
@pytest.mark.parametrize("shape", [Shape(tp=8), Shape(tp=4), Shape(tp=2)])
def test_a_class_is_learned_within_a_hundred_steps(profile: str, shape: Shape) -> None:
    rng, timer, model = random.Random(7), RooflineTimer(PROFILES[profile], shape), StepModel(shape.gpus)
    for _ in range(100):
        batch = some_batch(rng)
        model.learn(work_of(batch, timer.step_seconds(batch)))
    soon = errors(model, timer, rng)
    assert median(soon) < 0.06
    for _ in range(2000):
        batch = some_batch(rng)
        model.learn(work_of(batch, timer.step_seconds(batch)))
    late = errors(model, timer, rng)
    assert median(late) < 0.03
    assert late[270] < 0.08  # nine of ten


def test_steps_of_one_size_say_something_of_the_others() -> None:
    timer, model = RooflineTimer(PROFILES["llama-3.1-70b"], Shape(tp=4)), StepModel(4)
    prompt = Batch(prefill=8192, prefill_pairs=8192 * 4096, outputs=1)
    unknown = model.seconds(8192)
    for _ in range(30):
        model.learn(work_of(prompt, timer.step_seconds(prompt)))
    true = timer.step_seconds(Batch(prefill=1024, outputs=1))
    assert abs(log(model.seconds(1024) / true)) < 0.5 * abs(log(StepModel(4).seconds(1024) / true))
    assert model.seconds(8192) > 1.5 * unknown  # the prior is of a smaller model


def test_a_new_class_starts_from_one_that_is_known() -> None:
    rng, timer, known = random.Random(7), RooflineTimer(PROFILES["llama-3.1-70b"], Shape(tp=4)), StepModel(4)
    for _ in range(500):
        batch = some_batch(rng)
        known.learn(work_of(batch, timer.step_seconds(batch)))
    other = RooflineTimer(PROFILES["llama-3.1-70b"], Shape(tp=8))
    assert median(errors(StepModel(8, known), other, rng)) < 0.7 * median(errors(StepModel(8), other, rng))


def test_a_step_that_stood_still_moves_the_estimate_by_a_bounded_amount() -> None:
    model = StepModel(2)
    for _ in range(200):
        model.learn(Work(20_000, sequences=32))
    model.learn(Work(60_000_000, sequences=32))
    assert model.seconds(32) < 0.03


@given(works=st.lists(WORKS, max_size=60), tokens=st.integers(0, 100_000))
def test_nothing_reported_makes_an_estimate_absurd(works: list[Work], tokens: int) -> None:
    model, prior = StepModel(2), StepModel(2)
    for work in works:
        model.learn(work)
    assert LEAST_FACTOR * prior.seconds(tokens) <= model.seconds(tokens) * 1.001
    assert model.seconds(tokens) <= 1.001 * MOST_FACTOR * prior.seconds(tokens)


@given(st.lists(st.tuples(st.integers(1, 20_000), st.integers(1, 10**6)), min_size=1, max_size=20))
def test_a_node_that_no_step_came_near_has_the_factor_of_the_nearest_that_one_did(steps: list[tuple[int, int]]) -> None:
    model = StepModel(2)
    for tokens, micros in steps:
        model.learn(Work(micros, prefill_tokens=tokens))
        known = [node for node, count in enumerate(model._seen) if count]
        for node in range(len(NODES)):
            nearest = min(known, key=lambda other: abs(other - node))
            assert node in known or model._factors[node] == model._factors[nearest]
