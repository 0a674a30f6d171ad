"""Redact texts from others, such as an upstream's error, for the log: they may quote a prompt or an answer."""

import re
from typing import Final

_MOST_CHARACTERS: Final = 40
#: Words, each perhaps followed by a short number: a mixture of letters and digits may be a key.
_WORD: Final = r"(?:[a-z]{1,20}[0-9]{0,4}|[0-9]{1,4})"
_NAME: Final = re.compile(rf"(?=[a-z]){_WORD}(?:[_.]+{_WORD})*")


def redacted_words(words: str | bytes) -> str:
    """Return the text's length instead of the text; empty for an empty text."""
    return f"{len(words)} characters that are not shown" if words else ""


def name_or_redacted(words: str) -> str:
    """Return the text where it is a single name, such as an error's code; else redact it."""
    return words if len(words) <= _MOST_CHARACTERS and _NAME.fullmatch(words) else redacted_words(words)
