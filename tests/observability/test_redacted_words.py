import pytest

from observability.redacted_words import name_or_redacted, redacted_words


def test_how_much_was_said() -> None:
    assert redacted_words("a prompt") == redacted_words(b"a prompt") == "8 characters that are not shown"
    assert redacted_words("") == redacted_words(b"") == ""


@pytest.mark.parametrize("name", ["server_error", "rate_limit_exceeded", "http_429", "e22", "a.b_c"])
def test_names_are_shown(name: str) -> None:
    assert name_or_redacted(name) == name


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
    assert name_or_redacted(words) == redacted_words(words)
