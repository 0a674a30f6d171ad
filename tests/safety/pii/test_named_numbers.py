"""Numbers that a word before them makes ones of a kind."""

from safety.pii.context import WORDS
from safety.pii.named_numbers import _FORMS


def test_every_form_has_words_that_speak_of_it() -> None:
    """Without, the filter fails on a text that has such a number."""
    assert {form.kind for forms in _FORMS.values() for form in forms} <= WORDS.keys()
