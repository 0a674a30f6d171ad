"""Show texts of unknown origin on a terminal: nothing in them acts on it, and invisible characters are seen."""

import re
import unicodedata
from typing import Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Escape control characters, and those that turn the direction of writing."""
    return _CONTROLS.sub(lambda match: _escaped(match[0]), text)


def one_line(text: str) -> str:
    """Escape everything that is not shown as it is, ends of lines too."""
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def excerpt(text: str, start: int, end: int, width: int) -> str:
    """Show a stretch of a text in a line of at most `width` columns; the middle of a longer one is left out."""
    # Bounds the work: no more of a long stretch could be shown.
    shown = text[start:end] if end - start <= 2 * width else f"{text[start : start + width]}…{text[end - width : end]}"
    cells = [character if character.isprintable() else _escaped(character) for character in shown]
    if _columns(cells) <= width:
        return "".join(cells)
    half = (width - 1) // 2
    return f"{_fitting(cells, width - 1 - half)}…{_fitting(cells[::-1], half, backwards=True)}"


def _fitting(cells: list[str], width: int, *, backwards: bool = False) -> str:
    taken: list[str] = []
    for cell in cells:
        width -= _columns([cell])
        if width < 0:
            break
        taken.append(cell)
    return "".join(reversed(taken) if backwards else taken)


def _columns(cells: list[str]) -> int:
    """Return the width on a terminal."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for cell in cells
        for character in cell
    )


def _escaped(character: str) -> str:
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    return short or (f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}")
