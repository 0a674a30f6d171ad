import pytest

from safety.linear_search import Unsearchable, occurs


def test_it_finds_an_expression_anywhere() -> None:
    assert occurs("b+$", "abb")
    assert not occurs("^b", "abb")
    # What takes exponential time to backtrack.
    assert not occurs("^(a+)+$", "a" * 100_000 + "b")


@pytest.mark.parametrize(
    ("expression", "text"), [("(?=a)", "a"), ("(", "a"), ("(a{1000}){1000}", "a"), ("a", "\ud800")]
)
def test_what_it_cannot_search_for_is_refused(expression: str, text: str) -> None:
    with pytest.raises(Unsearchable):
        occurs(expression, text)
