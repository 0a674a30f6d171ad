"""Stretches of a text with their anchors, and which texts are worth a search."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from safety.injection.cues import BEHIND, REACH
from safety.injection.lexicon import Anchor, encoded, lexicon
from safety.literals import Hit
from safety.patterns import Patterns

#: So many different idle anchors are worth a search.
MANY_IDLE: Final = 4
#: Long texts are searched in parts of so many characters.
_PART: Final = 8192
#: In a text of another language at least one of so many characters is not ASCII.
_SELDOM: Final = 100
#: What letters beyond ASCII begin with in UTF-8, but neither signs nor pictures.
_has_other_letters: Final = Patterns([rb"[\xc3-\xe1\xe3-\xed]"]).any_in
_ALPHANUMERIC: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")

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
    ahead = text[begin:] if begin else text
    return Stretch(text, begin, end, base, placed(ahead, ahead.encode() if is_plain else None, with_bare=with_bare))


def stretches(text: str, plain: bytes | None = None) -> Iterable[Stretch]:
    """The stretches of a text that have anchors; `plain`: its UTF-8, if it is plain."""
    if len(text) > _PART:
        return _of_long(text, is_plain=plain is not None, with_bare=False)
    anchors = placed(text, plain)
    return (Stretch(text, 0, len(text), 0, anchors),) if anchors else ()


def worth_searching(text: str, plain: bytes | None = None) -> Iterable[Stretch]:
    """The same of a text of whose anchors one is not idle, or many are; of others nothing, or one that is empty.

    It is empty of texts in other languages than English, of which fewer anchors are known: how they are worded has to
    be weighed.
    """
    found = _worth_searching(text, plain)
    if text.isascii():
        return found
    data = encoded(text) if plain is None else plain
    # One foreign name makes no other language.
    if (len(data) - len(text)) * _SELDOM < len(text) or not _has_other_letters(data):
        return found
    return _at_least_one(found)


def _worth_searching(text: str, plain: bytes | None) -> Iterable[Stretch]:
    if len(text) > _PART:
        return _from_worth_on(_of_long(text, is_plain=plain is not None, with_bare=True))
    if plain is None:
        anchors = placed(text, with_bare=True)
    else:
        hits = lexicon().in_plain.find(plain, least_idle=MANY_IDLE)
        if not hits:
            return ()
        anchors = _in_characters(plain, hits, with_bare=True)
    return (Stretch(text, 0, len(text), 0, anchors),) if _are_worth(anchors, set()) else ()


def _at_least_one(found: Iterable[Stretch]) -> Iterator[Stretch]:
    none = True
    for each in found:
        none = False
        yield each
    if none:
        yield Stretch("", 0, 0, 0, ())


def _of_long(text: str, *, is_plain: bool, with_bare: bool) -> Iterator[Stretch]:
    for begin in range(0, len(text), _PART):
        base = max(0, begin - BEHIND)
        part = text[base : begin + _PART + REACH]
        found = stretch(part, begin - base, begin - base + _PART, base, is_plain=is_plain, with_bare=with_bare)
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
    idle: set[int] = set()
    waiting = []
    for each in found:
        waiting.append(each)
        if _are_worth(each.anchors, idle):
            yield from waiting
            yield from found


def _are_worth(anchors: Placed, idle: set[int]) -> bool:
    """Whether one of them is not idle, or many are, with those that were met before."""
    for _, anchor in anchors:
        if not anchor.idle:
            return True
        idle.add(id(anchor))
    return len(idle) >= MANY_IDLE


def placed(text: str, plain: bytes | None = None, *, with_bare: bool = False) -> Placed:
    """The anchors of a text, without those that are plainly parts of words; `plain`: its UTF-8, if it is plain."""
    if plain is None:
        data = encoded(text)
        return _in_characters(data, lexicon().automaton.find(data), with_bare=with_bare)
    hits = lexicon().in_plain.find(plain)
    return _in_characters(plain, hits, with_bare=with_bare) if hits else ()


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
