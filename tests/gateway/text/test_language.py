import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.language import language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Please tell me how to cook rice and beans in a small kitchen.", "en"),
        ("Wie koche ich Reis mit Bohnen, bitte?", "de"),
        ("请告诉我怎么做饭", "zh"),
        ("ok", "und"),
        ("", "und"),
        ("\x00\x1f\x85", "und"),
    ],
)
def test_languages(text: str, language: str) -> None:
    assert language_of(text) == language


@given(st.text(st.characters(), max_size=600))
def test_any_text_has_an_answer(text: str) -> None:
    assert language_of(text)
