"""Blocklists: find terms anywhere in a text, in any case and width.

Whole texts are searched for all terms in one pass. Streams examine the few characters that may begin a term, and
cache the results, as the same words recur.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple
from unicodedata import combining, normalize

from safety.folding import Places, fold, has_invisible, without_surrogates
from safety.literals import Hit, Literals
from safety.match import Match
from safety.patterns import ANY_CASE, Sign
from safety.plain_text import PUNCTUATION
from safety.prefilter import Signs

#: The longest term, and the longest span that matches one, in characters.
WINDOW: Final = 64
#: A piece longer than this is searched like a whole text.
_LONG: Final = 8 * WINDOW
#: Pieces up to this length recur, so their steps are cached.
_SHORT: Final = 12
#: The length of a term's head: by it most words are known at once to begin no term.
_HEAD: Final = 6
#: The most cached steps of streams, of about 300 bytes each.
_MOST_STEPS: Final = 20_000
#: Scripts without spaces between words, or with endings written onto them: there a term needs no word boundaries.
_NO_EDGES: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
).match


#: The relevant context before a piece: none, a letter or digit (any stands for all), or a backslash.
_NOTHING: Final = ""
_JOINING: Final = "a"
_ESCAPING: Final = "\\"
#: The second character of a JSON escape, in which a text may be written: not part of the word that follows.
_ESCAPED: Final = frozenset("nrt")
_ESCAPED_BYTES: Final = frozenset(b"nrtNRT")
_BACKSLASH: Final = ord("\\")
_PUNCTUATION: Final = frozenset(PUNCTUATION)
_CAPITALS: Final = {code: code - 32 for code in range(97, 123)}
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_PLAIN_BYTES: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


#: ASCII words in folded text without escapes.
_WORDS: Final = re.compile("[a-z0-9]+")
#: The begin of an ASCII word, also after an escape.
_WORD: Final = re.compile(r"(?:(?<![a-z0-9])|(?<=\\[nrt]))[a-z0-9]")


class TermError(ValueError):
    """A term is unusable; `index` is its place in the list."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index
        self.problem = problem


class _Step(NamedTuple):
    """The result of scanning held characters and a piece: matches, as (start, end), and the first undecided character.

    `held` is the undecided text, and `before` the context before it: `_NOTHING`, `_JOINING` or `_ESCAPING`.
    """

    matches: tuple[tuple[int, int], ...]
    open: int
    held: str
    before: str


class TermFilter:
    """A `StreamFilter` for terms: at one place the longest term matches, and matches do not overlap.

    With `words`, no letter, digit or combining mark may touch a term, unless the term's character on that side is none
    or of a script without spaces. A JSON escape before a term, a backslash and one of `nrt`, does not touch it. A match
    covers whole characters: never a part of one character's fold, nor a last character without its combining marks.
    """

    window: Final = WINDOW

    def __init__(self, label: str, terms: Iterable[str], *, words: bool) -> None:
        """Linear in the terms. Raises TermError for a term that is empty once folded, or too long."""
        self.label = label
        self._words = words
        folded: set[str] = set()
        for index, term in enumerate(terms):
            plain = fold(without_surrogates(term)).strip()
            if not plain:
                raise TermError(index, "nothing is left of it but white space and invisible characters")
            if len(plain) >= WINDOW:
                raise TermError(index, f"longer than {WINDOW - 1} characters")
            folded.add(plain)
        self._terms = sorted(folded)
        self._known = frozenset(folded)
        self._lengths = sorted({len(term) for term in folded}, reverse=True)
        #: Terms by their head; terms shorter than a head by their first two characters.
        self._of_heads = _by_heads(folded)
        self._first_words = frozenset(found[0] for term in folded if (found := _WORDS.match(term)))
        #: All prefixes of terms that are shorter than a head.
        self._beginnings = frozenset(term[:size] for term in folded for size in range(1, _HEAD))
        self._heads = frozenset(term[:size] for term in folded for size in (1, 2))
        self._singles = frozenset(term for term in folded if len(term) == 1)
        #: Whether all terms begin at an ASCII word and have more than one character.
        self._begin_as_words = words and all(term[0] in _PLAIN and len(term) > 1 for term in folded)
        self._literals = Literals([term.encode() for term in self._terms], any_case=True)
        #: Whether some of the terms have other spellings in plain characters.
        self._has_forms = any(map(_has_forms, folded))
        #: The cache of steps, by context and by held characters with the new piece.
        self.steps: dict[str, dict[str, _Step]] = {_NOTHING: {}, _JOINING: {}, _ESCAPING: {}}

    @property
    def signs(self) -> Signs | None:
        """The terms, if they are few enough for Hyperscan."""
        if not self._literals.are_few:
            return None
        return Signs([Sign(re.escape(term.encode()), ANY_CASE) for term in self._terms], only_ascii=self._has_forms)

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        if plain is not None and not (self._has_forms and not plain.isascii()):
            found = self._literals.find(plain)
            if not found or (self._words and all(_is_part(plain, start, end) for _, start, end in found)):
                return []
        return self._scan(text, 0)

    def _scan(self, text: str, after: int) -> list[Match]:
        """Return the matches that begin after this many folded characters."""
        folded = fold(text)
        try:
            data = folded.encode()
        except UnicodeEncodeError:
            folded = without_surrogates(folded)
            data = folded.encode()
        found = self._literals.find(data)
        if not found:
            return []
        if len(data) != len(folded):
            found = self._in_characters(data, found)
        return self._selected(text, folded, found, after)

    def _in_characters(self, data: bytes, found: Sequence[Hit]) -> list[Hit]:
        """Convert hits from byte to character offsets."""
        places = []
        byte = character = 0
        for index, _, end in found:
            character += len(data[byte:end].decode())
            byte = end
            places.append((index, character - len(self._terms[index]), character))
        return places

    def stream(self) -> "TermStream":
        return TermStream(self)

    def step(self, text: str, *, before: str, last: bool) -> _Step:
        """Scan `text`, which follows the context `before`; `last`: the text ends with it.

        The matches are final, and no other begins before `open`. Short pieces but the last are cached in `steps`.
        """
        if len(text) > _LONG:
            return self._long_step(text, before, last)
        step = self._computed(text, before, last)
        if not last and len(text) <= _SHORT:
            known = self.steps[before]
            if len(known) >= _MOST_STEPS:
                known.clear()
            known[text] = step
        return step

    def _long_step(self, text: str, before: str, last: bool) -> _Step:
        """Scan a long piece as a whole text, except for its end."""
        decided = len(text) - WINDOW
        shift = len(before)
        found = [(match.start - shift, match.end - shift) for match in self._scan(before + text, shift)]
        matches = [place for place in found if place[0] < decided]
        cut = max(decided, matches[-1][1]) if matches else decided
        rest = self._computed(text[cut:], self._left_by(text[:cut], before), last)
        later = ((cut + start, cut + end) for start, end in rest.matches)
        return _Step((*matches, *later), cut + rest.open, rest.held, rest.before)

    def _left_by(self, text: str, before: str) -> str:
        """The context that the text leaves for the next piece, from its last visible characters."""
        if not self._words:
            return _NOTHING
        end = ""
        for char in reversed(text):
            end = fold(char) + end
            # One more character is needed if the last may end an escape.
            if len(end) > 1 or (end and end not in _ESCAPED):
                break
        else:
            end = before + end
        if end.endswith(_ESCAPING):
            return _ESCAPING
        return _JOINING if end and _is_of_word(end[-1]) and not _is_escape(end, len(end)) else _NOTHING

    def _computed(self, text: str, before: str, last: bool) -> _Step:
        folded = without_surrogates(fold(text))
        if self._begin_as_words and text.isascii() and len(folded) == len(text):
            step = self._without_terms(text, folded, before, last)
            if step is not None:
                return step
        origin = _Origin(before, text, folded)
        matches: list[tuple[int, int]] = []
        after = 0
        # One search of the whole shows that there is none, as a rule.
        some = bool(self._literals.find(folded.encode()))
        for at in self._places(before, folded):
            if at < after or not self._may_begin(origin, at):
                continue
            if not last and self._may_go_on(origin, at):
                cut = origin.source(at)
                return _Step(tuple(matches), cut, text[cut:], self._left_by(text[:cut], before))
            end = next((end for end in self._ends(folded, at) if self._fits(origin, at, end)), None) if some else None
            if end is not None:
                matches.append((origin.source(at), origin.source_end(end)))
                after = end
        return _Step(tuple(matches), len(text), "", self._left_by(text, before))

    def _without_terms(self, text: str, folded: str, before: str, last: bool) -> _Step | None:
        """The step of ASCII text without a term, held from where one may begin; None if there may be a term.

        The fast path of `_computed`.
        """
        joined, shift = before + folded, len(before)
        if _ESCAPING not in joined:
            words = _WORDS.findall(joined)
            if self._first_words.isdisjoint(words):
                # Only the last word, if it goes on, may be the first word of a term.
                at = len(joined) - len(words[-1]) if words and joined[-1] in _PLAIN else -1
                if at < shift or last or not self._is_beginning(words[-1]):
                    return _Step((), len(text), "", _left_by_ascii(joined))
                return _Step((), at - shift, text[at - shift :], _left_by_ascii(joined[:at]))
        of_heads = self._of_heads
        # Nothing goes on after the end of the text.
        late = len(joined) + 1 if last else len(joined) - _HEAD
        for found in _WORD.finditer(joined):
            at = found.start()
            terms = of_heads.get(joined[at : at + _HEAD])
            short = of_heads.get(joined[at : at + 2])
            if (terms is None and short is None and at <= late) or at < shift:
                continue
            if joined.startswith(short or (), at) or joined.startswith(terms or (), at):
                return None
            if (terms is not None or at > late) and not last and self._is_beginning(joined[at:]):
                return _Step((), at - shift, text[at - shift :], _left_by_ascii(joined[:at]))
        return _Step((), len(text), "", _left_by_ascii(joined))

    def _is_beginning(self, folded: str) -> bool:
        """Whether a term begins with this folded text."""
        if len(folded) < _HEAD:
            return folded in self._beginnings
        if folded[:_HEAD] not in self._of_heads:
            return False
        index = bisect_left(self._terms, folded)
        return index < len(self._terms) and self._terms[index].startswith(folded)

    def _places(self, before: str, folded: str) -> list[int]:
        """The places of the first characters of terms; with `words` only those at a word's begin."""
        heads, singles = self._heads, self._singles
        places = [at for at in range(len(folded)) if folded[at : at + 2] in heads]
        if singles:
            places = sorted({*places, *(at for at, char in enumerate(folded) if char in singles)})
        if not self._words:
            return places
        joined, shift = before + folded, len(before)
        return [at for at in places if not _is_joined(joined, at + shift) or _is_escape(joined, at + shift)]

    def _may_begin(self, origin: "_Origin", at: int) -> bool:
        return origin.is_whole(at) and not (self._words and origin.joins(at) and not origin.is_escape(at))

    def _may_go_on(self, origin: "_Origin", at: int) -> bool:
        """Whether a term that begins at `at` may go on after the end of the text."""
        if len(origin.text) - origin.source(at) > WINDOW:
            return False
        return self._is_beginning(origin.folded[at:])

    def _ends(self, folded: str, at: int) -> Iterator[int]:
        most = len(folded) - at
        return (at + size for size in self._lengths if size <= most and folded[at : at + size] in self._known)

    def _fits(self, origin: "_Origin", start: int, end: int) -> bool:
        first = origin.source(start)
        if not origin.is_whole(end) or origin.source_end(end) - first > WINDOW:
            return False
        # A character after invisible ones, beyond the window, does not touch the term.
        touched = end < len(origin.folded) and origin.source(end) - first <= WINDOW
        return not touched or not (origin.has_mark(end) or (self._words and origin.joins(end)))

    def _selected(self, text: str, folded: str, found: Sequence[tuple[int, int, int]], after: int) -> list[Match]:
        """Select the hits that are matches: at word boundaries, the longest first, without overlaps."""
        if self._words:
            found = [place for place in found if not _is_joined(folded, place[1]) or _is_escape(folded, place[1])]
            # Many invisible characters separate a term from the next word. In ASCII only they change a fold's length.
            if found and (len(folded) == len(text) if text.isascii() else not has_invisible(text)):
                found = [place for place in found if not _is_joined(folded, place[2])]
        if not found:
            return []
        origin = _Origin("", text, folded)
        matches: list[Match] = []
        for _, start, end in sorted(found, key=_from_left_the_longest_first):
            if start >= after and self._may_begin(origin, start) and self._fits(origin, start, end):
                matches.append(Match(origin.source(start), origin.source_end(end), self.label))
                after = end
        return matches


class TermStream:
    """The `Stream` of a TermFilter; it holds the characters from `open` on, as they may begin a term."""

    __slots__ = ("_before", "_filter", "_held", "_steps", "open")

    def __init__(self, of: TermFilter) -> None:
        self._filter = of
        self._steps = of.steps
        self._held = ""
        self._before = _NOTHING
        self.open = 0

    def feed(self, text: str) -> Sequence[Match]:
        if not text:
            return ()
        text = self._held + text
        before = self._before
        step = self._steps[before].get(text) or self._filter.step(text, before=before, last=False)
        matches, cut, self._held, self._before = step
        if matches:
            return self._report(step)
        self.open += cut
        return ()

    def finish(self) -> Sequence[Match]:
        step = self._filter.step(self._held, before=self._before, last=True)
        self._held = ""
        return self._report(step)

    def _report(self, step: _Step) -> Sequence[Match]:
        base = self.open
        self.open = base + step.open
        return [Match(base + start, base + end, self._filter.label) for start, end in step.matches]


class _Origin:
    """A folded text with its source positions and context. Places are between folded characters."""

    __slots__ = ("_before", "_places", "folded", "text")

    def __init__(self, before: str, text: str, folded: str) -> None:
        self._before = before
        self.text = text
        self.folded = folded
        # In ASCII, invisible characters fold to nothing, and all others to one character.
        places = None if text.isascii() and len(folded) == len(text) else Places(text)
        self._places = None if places is None or places.are_same else places

    def source(self, at: int) -> int:
        """The position in the text, after invisible characters."""
        return at if self._places is None else self._places.source(at)

    def source_end(self, at: int) -> int:
        """The position in the text, before invisible characters."""
        return at if self._places is None or at == 0 else self._places.source(at - 1) + 1

    def is_whole(self, at: int) -> bool:
        """Whether the place is not inside one character's fold."""
        places = self._places
        return places is None or at == 0 or places.source(at - 1) != places.source(at)

    def has_mark(self, at: int) -> bool:
        """Whether a combining mark follows."""
        return combining(self.folded[at]) != 0

    def joins(self, at: int) -> bool:
        """Whether the characters on both sides belong to one word."""
        if at:
            left = self.folded[at - 1]
        elif self._before:
            left = self._before
        else:
            return False
        return at < len(self.folded) and _is_of_word(left) and _is_of_word(self.folded[at])

    def is_escape(self, at: int) -> bool:
        """Whether a JSON escape ends there."""
        return _is_escape(self._before + self.folded, at + len(self._before))


def _by_heads(terms: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for term in terms:
        found[term[:_HEAD] if len(term) >= _HEAD else term[:2]].append(term)
    return {head: tuple(those) for head, those in found.items()}


def _left_by_ascii(joined: str) -> str:
    """The context that lower-case ASCII text leaves for the next piece."""
    last = joined[-1:]
    if last == _ESCAPING:
        return _ESCAPING
    joins = last in _PLAIN and not (last in _ESCAPED and joined[-2:-1] == _ESCAPING)
    return _JOINING if joins else _NOTHING


def _is_joined(folded: str, at: int) -> bool:
    """Whether ASCII letters or digits stand on both sides: this rejects most false hits quickly."""
    return 0 < at < len(folded) and folded[at - 1] in _PLAIN and folded[at] in _PLAIN


def _is_escape(folded: str, at: int) -> bool:
    """Whether a JSON escape ends there: it is not part of the word after it."""
    return at > 1 and folded[at - 2] == _ESCAPING and folded[at - 1] in _ESCAPED


def _is_part(plain: bytes, start: int, end: int) -> bool:
    """Whether an ASCII letter or digit of a plain text touches the hit on either side."""
    letters = _PLAIN_BYTES
    if end < len(plain) and plain[end] in letters and plain[end - 1] in letters:
        return True
    if start == 0 or plain[start] not in letters or plain[start - 1] not in letters:
        return False
    return start == 1 or plain[start - 2] != _BACKSLASH or plain[start - 1] not in _ESCAPED_BYTES


def _has_forms(term: str) -> bool:
    """Whether a term has other spellings in plain text than its own and those with ASCII capitals."""
    return not _PUNCTUATION.isdisjoint(term) or (
        not term.isascii() and (term.upper() != term.translate(_CAPITALS) or normalize("NFC", term) != term)
    )


def _is_of_word(char: str) -> bool:
    return (char.isalnum() or combining(char) != 0) and not _NO_EDGES(char)


def _from_left_the_longest_first(found: tuple[int, int, int]) -> tuple[int, int]:
    return found[1], -found[2]
