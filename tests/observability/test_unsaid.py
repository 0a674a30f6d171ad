import pytest

from observability.unsaid import name_or_unsaid, unsaid


def test_how_much_was_said() -> None:
    assert unsaid("a prompt") == unsaid(b"a prompt") == "8 characters that are not shown"
    assert unsaid("") == unsaid(b"") == ""


@pytest.mark.parametrize("name", ["server_error", "E-1.2"])
def test_names_are_shown(name: str) -> None:
    assert name_or_unsaid(name) == name


@pytest.mark.parametrize("words", ["a prompt", "x" * 65, "no\n", "1", "é"])
def test_words_are_not(words: str) -> None:
    assert name_or_unsaid(words) == unsaid(words)
