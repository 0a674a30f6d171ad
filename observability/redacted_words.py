"""What the log says of words that others have chosen, such as an upstream's: they may quote a prompt or an answer."""

import re
from typing import Final

_MOST_CHARACTERS: Final = 40
#: Words, each of them perhaps with a short number behind it: letters and digits in a mixture may be a key.
_WORD: Final = r"(?:[a-z]{1,20}[0-9]{0,4}|[0-9]{1,4})"
_NAME: Final = re.compile(rf"(?=[a-z]){_WORD}(?:[_.]+{_WORD})*")


def redacted_words(words: str | bytes) -> str:
    """How much there is of them; nothing of nothing."""
    return f"{len(words)} characters that are not shown" if words else ""


def name_or_redacted(words: str) -> str:
    """The words themselves where they are one name, such as an error's code."""
    return words if len(words) <= _MOST_CHARACTERS and _NAME.fullmatch(words) else redacted_words(words)
