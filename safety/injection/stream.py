"""Finds attempts in a text that comes in pieces."""

from collections.abc import Sequence

from safety.injection.cues import BEHIND, REACH
from safety.injection.finder import find
from safety.injection.fold import folded, is_itself
from safety.injection.lexicon import LAST, encoded, lexicon
from safety.injection.stretches import ENDED, Stretch, Telling, begun
from safety.injection.tally import Tally
from safety.match import Match


class InjectionStream:
    """One text. Holds `BEHIND` characters that are decided, for what begins after them, and those that are not."""

    def __init__(self, threshold: float) -> None:
        self._tally = Tally(threshold)
        self._telling = Telling()
        self._held = ""
        self._base = 0
        self._pieces: list[str] = []
        self._length = 0
        self._due = 0
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
        length = len(held)
        begin = self._decided - base
        matches: list[Match] = []
        undecided = None
        anchors = begun(held, begin)
        if anchors:
            end = length if last else max(0, length - REACH + 1)
            anchors = self._telling.kept(anchors, self._decided, base + end, ENDED if last else base + length)
        if anchors:
            features, undecided = find(Stretch(held, begin, end, 0, anchors))
            if features:
                matches = self._tally.matches(features, base, self._length)
                if self._tally.full:
                    self._decided = self._due = self._length
                    return matches
        waiting = length if last else _beginning(held, begin)
        if undecided is not None and undecided <= waiting:
            self._due = base + undecided + REACH
            waiting = undecided
        else:
            self._due = 0
        self._decided = base + waiting
        self._base = max(0, self._decided - BEHIND)
        self._held = held[self._base - base :]
        return matches


def _beginning(text: str, begin: int) -> int:
    """Where, from `begin` on, the text's end begins that may be an anchor's beginning; its length if none."""
    length = len(text)
    longest = lexicon().longest
    start = max(begin, length - REACH)
    end = text[start:]
    if end.isascii():
        return length - _prefix(end[-longest:].lower())
    plainly = length - _prefix(encoded(end[-longest:]).decode("utf-8", "surrogatepass"))
    if is_itself(end):
        return plainly
    seen = folded(end, latin=True)
    shown = encoded(seen.text[-longest:]).decode("utf-8", "surrogatepass")
    waits = _prefix(shown)
    return min(plainly, start + seen.starts[len(seen.text) - waits]) if waits else plainly


def _prefix(tail: str) -> int:
    """The most characters at the text's end that an anchor may begin with."""
    known = lexicon()
    beginnings = known.beginnings
    for length in known.endings.get(tail[-LAST:], ()):
        if length <= len(tail) and tail[-length:] in beginnings:
            return length
    end = tail[1 - LAST :]
    while end and end not in beginnings:
        end = end[1:]
    return len(end)
