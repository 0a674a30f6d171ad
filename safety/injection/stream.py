"""Finds attempts in a text that comes in pieces."""

from collections.abc import Sequence
from typing import Final

from safety.injection.cues import BEHIND, REACH
from safety.injection.finder import find
from safety.injection.fold import folded
from safety.injection.lexicon import encoded, lexicon
from safety.injection.tally import Tally
from safety.match import Match

#: So many characters are gathered before they are looked at, if nothing before them waits for its end.
_BATCH: Final = 16


class InjectionStream:
    """One text. Holds `BEHIND` characters that are decided, for what begins after them, and those that are not."""

    def __init__(self, threshold: float) -> None:
        self._tally = Tally(threshold)
        self._held = ""
        self._base = 0
        self._pieces: list[str] = []
        self._length = 0
        self._due = _BATCH
        self._decided = 0

    @property
    def open(self) -> int:
        """From this character on nothing is decided."""
        return self._decided

    def feed(self, text: str) -> Sequence[Match]:
        """The next piece; gives the matches that are certain now."""
        self._pieces.append(text)
        self._length += len(text)
        if self._length < self._due:
            return ()
        if self._tally.full:
            return self._rest()
        return self._look(last=False)

    def finish(self) -> Sequence[Match]:
        """The text has ended; gives the rest of the matches."""
        return self._rest() if self._tally.full else self._look(last=True)

    def _rest(self) -> Sequence[Match]:
        """What follows a full score is part of its match."""
        full = self._tally.full
        start, self._decided = self._decided, self._length
        self._pieces.clear()
        return [full._replace(start=start, end=self._length)] if full and self._length > start else ()

    def _look(self, *, last: bool) -> list[Match]:
        held = self._held + "".join(self._pieces)
        self._pieces.clear()
        base = self._base
        end = len(held) if last else max(0, len(held) - REACH + 1)
        features, undecided = find(held, self._decided - base, end)
        matches = self._tally.matches(features, base, self._length) if features else []
        if self._tally.full:
            self._decided = self._due = self._length
            return matches
        waiting = len(held) if last else _beginning(held, self._decided - base)
        if undecided is not None and undecided <= waiting:
            self._due = base + undecided + REACH
            waiting = undecided
        else:
            self._due = min(base + waiting + REACH, self._length + _BATCH)
        self._decided = base + waiting
        self._base = max(0, self._decided - BEHIND)
        self._held = held[self._base - base :]
        return matches


def _beginning(text: str, begin: int) -> int:
    """Where, from `begin` on, the text's end begins that may be an anchor's beginning; its length if none."""
    words = lexicon()
    beginnings = words.beginnings
    tail = text[max(begin, len(text) - words.longest) :]
    shown = tail.lower() if tail.isascii() else encoded(tail).decode("utf-8", "surrogatepass")
    length = len(shown)
    for place in range(length):
        if shown[place:] in beginnings:
            break
    else:
        place = length
    found = len(text) - length + place
    if tail.isascii() and (begin >= len(text) - REACH or text[max(begin, len(text) - REACH) :].isascii()):
        return found
    return min(found, _masked(text, max(begin, len(text) - REACH)))


def _masked(text: str, begin: int) -> int:
    """As above, of the text with its letters unmasked."""
    seen = folded(text[begin:], latin=True)
    beginnings = lexicon().beginnings
    shown = encoded(seen.text).decode("utf-8", "surrogatepass")
    for place in range(max(0, len(shown) - lexicon().longest), len(shown)):
        if shown[place:] in beginnings:
            return begin + seen.starts[place]
    return len(text)
