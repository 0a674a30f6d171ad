import random
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.estimates.decode_length import DEFAULT_TOKENS, DecodeLength, Oracle, Origin, QuantileDecodeLength
from routing.estimates.length_sketch import LengthSketch

ORIGIN = Origin("m", "acme", "r")
LENGTHS = st.lists(st.integers(1, 1 << 22), min_size=1, max_size=60)


def taught(answers: dict[Origin, tuple[int, int]], times: int = 40) -> QuantileDecodeLength:
    predictor = QuantileDecodeLength()
    for origin, (prompt, output) in answers.items():
        for _ in range(times):
            predictor.learn(origin, prompt, output)
    return predictor


@pytest.mark.parametrize("predictor", [QuantileDecodeLength(), taught({ORIGIN: (10, 700)}), Oracle({"r": 700})])
@pytest.mark.parametrize("most", [1, 5, 100_000])
def test_a_prediction_is_at_least_one_token_and_at_most_what_is_asked_for(predictor: DecodeLength, most: int) -> None:
    assert 1 <= predictor.expected(ORIGIN, 10, most) <= most
    assert 1 <= predictor.quantile(ORIGIN, 10, most, 0.0) <= predictor.quantile(ORIGIN, 10, most, 1.0) <= most


def test_an_oracle_knows_and_is_wrong_as_often_as_it_is_told_to() -> None:
    lengths = {f"request-{k}": 400 for k in range(2000)}
    knowing, guessing = Oracle(lengths), Oracle(lengths, accuracy=0.9)
    origins = [Origin("m", request_id=name) for name in lengths]
    assert {knowing.expected(origin, 10, 1000) for origin in origins} == {400.0}
    guesses = [guessing.expected(origin, 10, 10_000) for origin in origins]
    assert set(guesses) == {100.0, 400.0, 1600.0}
    assert 0.87 < guesses.count(400.0) / len(guesses) < 0.93
    assert guesses == [guessing.expected(origin, 10, 10_000) for origin in origins]
    with pytest.raises(KeyError):
        knowing.expected(Origin("m", request_id="another"), 10, 10)


def test_nothing_known_gives_the_default() -> None:
    predictor = QuantileDecodeLength()
    assert predictor.expected(ORIGIN, 10, 4096) == DEFAULT_TOKENS
    assert predictor.quantile(ORIGIN, 10, 4096, 0.5) < DEFAULT_TOKENS < predictor.quantile(ORIGIN, 10, 4096, 0.9)


def test_tenants_and_prompt_lengths_are_told_apart() -> None:
    chats, summaries = Origin("m", "chats"), Origin("m", "summaries")
    predictor = taught({chats: (100, 800), summaries: (20_000, 120)})
    predictor.learn(chats, 20_000, 60)
    for _ in range(40):
        predictor.learn(chats, 3000, 300)
    assert predictor.expected(chats, 100, 4096) == pytest.approx(800, rel=0.01)
    assert predictor.expected(chats, 3000, 4096) == pytest.approx(300, rel=0.01)
    assert predictor.quantile(summaries, 20_000, 4096, 0.9) == pytest.approx(120, rel=0.2)
    # One answer is too few to go by: the tenant's other ones count.
    assert 300 < predictor.expected(chats, 20_000, 4096) < 800


def test_an_unknown_tenant_is_taken_for_the_models_average_one() -> None:
    predictor = taught({Origin("m", "a"): (100, 800), Origin("m", "b"): (20_000, 120), Origin("other", "a"): (100, 5)})
    assert predictor.expected(Origin("m", "new"), 100, 4096) == pytest.approx(800, rel=0.01)
    assert predictor.expected(Origin("m", "new"), 7, 4096) == pytest.approx(460, rel=0.05)


def test_what_changes_is_learned_anew() -> None:
    predictor = taught({ORIGIN: (100, 1000)}, times=10_000)
    for _ in range(10_000):
        predictor.learn(ORIGIN, 100, 100)
    assert predictor.expected(ORIGIN, 100, 4096) < 110


def test_memory_is_bounded_and_the_least_recent_kinds_go_first() -> None:
    predictor = QuantileDecodeLength(kinds=8)
    for tenant in range(100):
        for _ in range(20):
            predictor.learn(Origin("m", str(tenant)), 100, 10 if tenant else 5000)
    assert len(predictor._sketches) == 8
    assert predictor.expected(Origin("m", "99"), 100, 9000) == pytest.approx(10, rel=0.01)
    assert predictor.expected(Origin("m", "0"), 100, 9000) < 200


def test_answers_that_were_cut_count_as_longer() -> None:
    predictor = QuantileDecodeLength()
    for _ in range(100):
        predictor.learn(ORIGIN, 100, 1000)
        predictor.learn(ORIGIN, 100, 16, cut=True)
    assert predictor.expected(ORIGIN, 100, 4096) > 900
    assert predictor.expected(ORIGIN, 100, 16) == 16


def test_cut_answers_alone_are_taken_as_they_are() -> None:
    predictor = QuantileDecodeLength()
    for _ in range(100):
        predictor.learn(ORIGIN, 100, 16, cut=True)
    assert predictor.expected(ORIGIN, 100, 4096) == pytest.approx(16)


def test_an_answer_without_a_token_teaches_nothing() -> None:
    predictor = QuantileDecodeLength()
    predictor.learn(ORIGIN, 100, 0)
    assert predictor.expected(ORIGIN, 100, 4096) == DEFAULT_TOKENS


def test_how_good_it_is() -> None:
    rng = random.Random(1)
    predictor, steady = QuantileDecodeLength(), Origin("steady")
    below = wild = right = 0
    for number in range(4000):
        tokens, near = max(1, round(300 * exp(0.8 * rng.gauss(0, 1)))), 300 + rng.randrange(30)
        if number >= 1000:
            below += tokens <= predictor.quantile(ORIGIN, 100, 4096, 0.9)
            wild += abs(predictor.expected(ORIGIN, 100, 4096) - tokens) <= 0.25 * tokens
            right += abs(predictor.expected(steady, 100, 4096) - near) <= 0.25 * near
        predictor.learn(ORIGIN, 100, tokens)
        predictor.learn(steady, 100, near)
    assert 0.87 < below / 3000 < 0.93
    assert right / 3000 > 0.99
    assert 0.1 < wild / 3000 < 0.6


@given(lengths=LENGTHS, cuts=LENGTHS, shares=st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_quantiles_rise_and_stay_among_what_was_seen(lengths: list[int], cuts: list[int], shares: list[float]) -> None:
    sketch = LengthSketch()
    for tokens in lengths:
        sketch.add(tokens)
    for tokens in cuts:
        sketch.add_cut(tokens)
    quantiles = [sketch.quantile(share) for share in sorted(shares)]
    assert quantiles == sorted(quantiles)
    everything = lengths + cuts
    low, high = min(min(everything), 1 << 20), min(max(everything), 1 << 20)
    assert all(low / 1.2 <= quantile <= high * 1.2 for quantile in quantiles)


@given(lengths=LENGTHS, most=st.integers(1, 1 << 22))
def test_a_bounded_mean_is_the_mean_of_the_bounded(lengths: list[int], most: int) -> None:
    sketch = LengthSketch()
    for tokens in lengths:
        sketch.add(min(tokens, 1 << 20))
    true = sum(min(tokens, most, 1 << 20) for tokens in lengths) / len(lengths)
    assert true / 1.3 <= sketch.mean(most) <= true * 1.3


def test_weights_that_grow_for_ever_stay_finite() -> None:
    sketch = LengthSketch()
    for _ in range(60_000):
        sketch.add(100)
    assert sketch.weight == pytest.approx(2000, rel=0.01)
    assert sketch.mean(1000) == pytest.approx(100)
    assert sketch.quantile(0.5) == pytest.approx(100, rel=0.2)
