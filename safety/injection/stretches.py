"""Stretches of a text with their anchors, and which texts are worth a search."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from safety.injection.cues import BEHIND, REACH
from safety.injection.lexicon import Anchor, encoded, lexicon
from safety.languages import OTHER_LETTERS, may_be_another
from safety.literals import Hit
from safety.patterns import Patterns
from safety.plain_text import plain_bytes

#: Long texts are searched in parts of so many characters.
_PART: Final = 8192
_has_other_letters: Final = Patterns([OTHER_LETTERS.expression]).any_in
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_ALPHANUMERIC: Final = frozenset(map(ord, _LETTERS))

#: Anchors with the characters where they begin, in order; bare ones only where it is asked whether a text is worth a
#: search.
Placed = Sequence[tuple[int, Anchor]]


class Stretch(NamedTuple):
    """A part of a text with the anchors that begin in it from `begin` on, whose places are counted from there.

    What begins at its characters from `begin` up to `end` can be told. `base`: where in the whole text it begins.
    """

    text: str
    begin: int
    end: int
    base: int
    anchors: Placed


def stretch(
    text: str, begin: int, end: int, base: int = 0, *, is_plain: bool = False, with_bare: bool = False
) -> Stretch:
    """A stretch of a text, of which it may be known that it is plain."""
    return Stretch(text, begin, end, base, begun(text, begin, is_plain=is_plain, with_bare=with_bare))


def begun(text: str, begin: int, *, is_plain: bool = False, with_bare: bool = False) -> Placed:
    """The anchors of a stretch of the text from `begin` on."""
    ahead = text[begin:] if begin else text
    anchors = placed(ahead, ahead.encode() if is_plain else plain_bytes(ahead), with_bare=with_bare)
    if anchors and begin and text[begin - 1] in _LETTERS:
        # The rest of a word that began before is none of its own.
        anchors = [each for each in anchors if each[0] or not each[1].opens]
    return anchors


def stretches(text: str, plain: bytes | None = None) -> Iterable[Stretch]:
    """The stretches of a text that have anchors, less the weak ones that `Telling` leaves out.

    `plain`: its UTF-8, if it is plain.
    """
    if len(text) > _PART:
        return _of_long(text, is_plain=plain is not None, telling=Telling())
    anchors = placed(text, plain, not_only=lexicon().weak)
    if anchors:
        anchors = Telling().kept(anchors, 0, len(text), ENDED)
    return (Stretch(text, 0, len(text), 0, anchors),) if anchors else ()


class Telling:
    """Leaves out the weak anchors of a text that stand before all others, and not shortly before.

    Most texts have nothing but weak ones, so nothing of them need be looked at; what they say counts beside what tells
    more. Whether one is left out depends on what stands before it and on `REACH` characters from it on.
    """

    def __init__(self) -> None:
        #: Where the first one that is not weak ends, that is known so far.
        self._end: int | None = None

    def kept(self, anchors: Placed, base: int, decided: int, known: int) -> Placed:
        """Those that are left of the anchors of a stretch, whose places are counted from `base`.

        The text is known up to `known`, where an anchor that ends there may turn out to be a part of a longer word; an
        anchor from `decided` on is kept until more is known.
        """
        if self._end is None:
            ends = (base + place + anchor.length for place, anchor in anchors if not anchor.weak)
            self._end = min((end for end in ends if end < known), default=None)
        first = decided if self._end is None else min(decided, self._end - REACH + 1)
        return [each for each in anchors if not each[1].weak or base + each[0] >= first]


#: Of a text that has ended all is known.
ENDED: Final = 1 << 62


def worth_searching(text: str, plain: bytes | None = None) -> Iterable[Stretch]:
    """The same of a text of whose anchors one is not idle; of others nothing, or one that is empty.

    It is empty of texts in other languages than English, of which fewer anchors are known: how they are worded has to
    be weighed.
    """
    found = _worth_searching(text, plain)
    if text.isascii():
        return found
    data = encoded(text) if plain is None else plain
    if not may_be_another(len(text), len(data)) or not _has_other_letters(data):
        return found
    return _at_least_one(found)


def _worth_searching(text: str, plain: bytes | None) -> Iterable[Stretch]:
    if len(text) > _PART:
        return _from_worth_on(_of_long(text, is_plain=plain is not None, telling=None))
    if plain is None:
        anchors = placed(text, with_bare=True)
    else:
        hits = lexicon().in_plain.find(plain, lexicon().idle)
        if not hits:
            return ()
        anchors = _in_characters(plain, hits, with_bare=True)
    return (Stretch(text, 0, len(text), 0, anchors),) if _are_worth(anchors) else ()


def _at_least_one(found: Iterable[Stretch]) -> Iterator[Stretch]:
    none = True
    for each in found:
        none = False
        yield each
    if none:
        yield Stretch("", 0, 0, 0, ())


def _of_long(text: str, *, is_plain: bool, telling: Telling | None) -> Iterator[Stretch]:
    """With the bare anchors, or less those that `telling` leaves out."""
    for begin in range(0, len(text), _PART):
        base = max(0, begin - BEHIND)
        part = text[base : begin + _PART + REACH]
        found = stretch(part, begin - base, begin - base + _PART, base, is_plain=is_plain, with_bare=telling is None)
        if telling is not None and found.anchors:
            known = base + len(part)
            kept = telling.kept(found.anchors, begin, begin + _PART, known if known < len(text) else ENDED)
            found = found._replace(anchors=kept)
        anchors = _begun_in(found)
        if anchors:
            yield found._replace(anchors=anchors)


def _begun_in(part: Stretch) -> Placed:
    """The anchors that begin in a part, and no rests of words that began before; tricks beyond it are of use, too."""
    text, begin, end, _, anchors = part
    goes_on = begin > 0 and text[begin - 1].isalnum()
    return [
        (place, anchor)
        for place, anchor in anchors
        if anchor.trick or (begin + place < end and not (goes_on and anchor.opens and not place))
    ]


def _from_worth_on(found: Iterator[Stretch]) -> Iterator[Stretch]:
    waiting = []
    for each in found:
        waiting.append(each)
        if _are_worth(each.anchors):
            yield from waiting
            yield from found


def _are_worth(anchors: Placed) -> bool:
    return any(not anchor.idle for _, anchor in anchors)


def placed(
    text: str, plain: bytes | None = None, *, with_bare: bool = False, not_only: frozenset[int] = frozenset()
) -> Placed:
    """The anchors of a text, without those that are plainly parts of words; `plain`: its UTF-8, if it is plain.

    There need be none of a plain text in which there are `not_only` those.
    """
    if plain is None:
        data = encoded(text)
        hits: Sequence[Hit] = lexicon().automaton.find(data)
    else:
        data = plain
        hits = lexicon().in_plain.find(data, not_only)
    return _in_characters(data, hits, with_bare=with_bare) if hits else ()


def _in_characters(data: bytes, hits: Sequence[Hit], *, with_bare: bool) -> Placed:
    """The same of hits in the text's bytes."""
    anchors = lexicon().anchors
    length = len(data)
    starts = []
    for which, start, end in hits:
        anchor = anchors[which]
        if anchor.bare and not with_bare:
            continue
        if anchor.opens and start and data[start - 1] in _ALPHANUMERIC:
            continue
        if anchor.closes and end < length and data[end] in _ALPHANUMERIC:
            continue
        starts.append((start, which))
    starts.sort()
    if not starts or data.isascii():
        return [(start, anchors[which]) for start, which in starts]
    placed: list[tuple[int, Anchor]] = []
    place = byte = 0
    for start, which in starts:
        if start != byte:
            place += len(data[byte:start].decode("utf-8", "surrogatepass"))
            byte = start
        placed.append((place, anchors[which]))
    return placed
