import pytest

from loadtest.cost.price import without_tokens


def test_tokens_are_the_difference_of_two_answers() -> None:
    request, token = without_tokens({"a": 140.0, "b": 5.0}, {"a": 180.0, "c": 40.0}, (20, 40))
    assert token == pytest.approx({"a": 2.0, "b": -0.25, "c": 2.0})
    assert request == pytest.approx({"a": 100.0, "b": 10.0, "c": -40.0})
