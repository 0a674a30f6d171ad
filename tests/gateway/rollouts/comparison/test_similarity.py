import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rollouts.comparison.similarity import cosine, overlap


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_it_is_a_similarity(one: str, other: str) -> None:
    assert overlap(one, one) == 1.0
    assert 0.0 <= overlap(one, other) == overlap(other, one) <= 1.0


def test_shared_words_and_their_order_count() -> None:
    assert overlap("the cat sat", "a dog ran") == 0.0
    assert overlap("The cat sat.", "the CAT sat.") == 1.0
    shuffled = overlap("the cat saw the dog", "the dog saw the cat")
    assert 0.5 < shuffled < 1.0
    assert overlap("a b c d", "a b c e") > overlap("a b c d", "a x y e")
    # Scripts without spaces are compared by their characters.
    assert 0.0 < overlap("猫が座った", "犬が座った") < 1.0


def test_vectors_are_compared_by_their_angle() -> None:
    assert cosine([1.0, 2.0], [2.0, 4.0]) == pytest.approx(1.0)
    assert cosine([1.0, 0.0], [0.0, 1.0]) == 0.0
    assert cosine([1.0], [-1.0]) == cosine([0.0], [1.0]) == cosine([float("inf")], [1.0]) == 0.0
    with pytest.raises(ValueError, match="argument 2"):
        cosine([1.0], [1.0, 2.0])
