"""Units of a prompt: parts that are encoded on their own, so that what a prompt shares with others is encoded once."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.text.tokens.safe_cuts import SafeCuts

#: Characters from which on a unit is closed. Shorter units cost more to look up than to encode; longer ones are shared
#: less, and what follows the last closed unit is encoded anew with each turn of a conversation.
UNIT_CHARS: Final = 8192


class Unit(NamedTuple):
    """Texts and control tokens in turn, first and last a text (maybe empty), as in `Tokenizer.encode_parts`.

    `after`: the first control token is there as context alone; it belongs to the unit before.
    """

    parts: tuple[str, ...]
    after: bool = False


def units_of(parts: Sequence[str], cuts: SafeCuts | None) -> list[Unit]:
    """Cut a prompt in parts, whose encodings do not depend on each other, into units; with `cuts` long texts too.

    Where one prompt begins as another does, so do its units, but for the last of those that are equal. A long text
    begins a unit, so that behind an edit the units are the same again.
    """
    units: list[Unit] = []
    current, size = [""], 0
    for index, part in enumerate(parts):
        if index % 2:
            current += (part, "")
            continue
        if len(part) < UNIT_CHARS:
            current[-1] = part
            size += len(part)
        else:
            if len(current) > 1:
                units.append(Unit(tuple(current)))
            *whole, rest = (part,) if cuts is None else cuts.cut(part, UNIT_CHARS)
            units += [Unit((text,)) for text in whole]
            current, size = [rest], len(rest)
        if size >= UNIT_CHARS:
            units.append(Unit(tuple(current)))
            current, size = [""], 0
    if len(current) > 1 or current[0]:
        units.append(Unit(tuple(current)))
    return units


def units_at_controls(parts: Sequence[str]) -> list[Unit]:
    """Cut a prompt in parts into units that end with a control token and know the one before, as `units_of` does."""
    units: list[Unit] = []
    start = size = 0

    def close(end: int) -> None:
        nonlocal start, size
        # Both ends are texts, and a control token in their place is within.
        before, behind = ("",) * (start % 2), ("",) * (end % 2)
        units.append(Unit((*before, *parts[start : end + 1], *behind), after=start > 0))
        start, size = end, 0

    for index in range(0, len(parts) - 1, 2):
        if len(parts[index]) >= UNIT_CHARS and index - 1 > start:
            close(index - 1)
        size += len(parts[index])
        if size >= UNIT_CHARS:
            close(index + 1)
    close(len(parts) - 1)
    return units
