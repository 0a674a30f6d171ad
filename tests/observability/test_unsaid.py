import pytest

from observability.unsaid import name_or_unsaid, unsaid


def test_how_much_was_said() -> None:
    assert unsaid("a prompt") == unsaid(b"a prompt") == "8 characters that are not shown"
    assert unsaid("") == unsaid(b"") == ""


@pytest.mark.parametrize("name", ["server_error", "rate_limit_exceeded", "http_429", "e22", "a.b_c"])
def test_names_are_shown(name: str) -> None:
    assert name_or_unsaid(name) == name


@pytest.mark.parametrize(
    "words",
    [
        "a prompt",
        "a_" * 19 + "abc",
        "no\n",
        "1",
        "é",
        "sk-proj-aB3dE5fG7h",
        "AKIAIOSFODNN7EXAMPLE",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "key_4ec39hqlyjwdarjtt1",
        "order_20260412",
        "qzjvxwkqzjvxwkqzjvxwk",
        "not_found_",
    ],
)
def test_words_are_not(words: str) -> None:
    assert name_or_unsaid(words) == unsaid(words)
