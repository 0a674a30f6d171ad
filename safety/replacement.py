"""The text that replaces a redacted match."""

import re
from collections.abc import Iterable
from typing import Final

#: The text before an unquoted JSON value, such as a number: a key, and the earlier items of a list. The JSON may itself
#: be a string in other JSON.
_BARE_VALUE: Final = re.compile(
    r"(?:[{,]|\\n)\s*(\\*\")[^\"\\\n]{1,64}\1[ \t]{0,4}:\s*"
    r"(?:\[(?:\"[^\"]*\"|[^\"\[\]{}])*(?<=[\[,\s]))?$"
)
#: The number of characters before a match that tell what replaces it.
LEFT: Final = 160


def replacement(left: str, label: str) -> str:
    """Return the replacement of a match after `left`, quoted where the JSON around it would otherwise be invalid."""
    bare = _BARE_VALUE.search(left)
    quote = bare[1] if bare is not None else ""
    return f"{quote}[{label.upper()}]{quote}"


def replaced(text: str, spans: Iterable[tuple[int, int]], by: Iterable[str]) -> str:
    """Return a text with its spans (start, end), in order, replaced."""
    parts: list[str] = []
    at = 0
    for (start, end), written in zip(spans, by, strict=True):
        parts += text[at:start], written
        at = end
    return "".join([*parts, text[at:]])
