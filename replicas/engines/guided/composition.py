"""Composes a guided answer token by token: each choice follows from the answer's key and its text so far.

A guide tells what may come next, not what leads to an end. So choices prefer what closes: text is some words of the
corpus, numbers are short, arrays and objects end soon, and past `SOON` tokens nesting or continuing is a last resort.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from llguidance import LLMatcher

from replicas.engines.guided.errors import GuideError
from replicas.engines.guided.grammars import Plan
from replicas.engines.guided.palette import Palette

SOON: Final = 200
_LONGEST_TEXT: Final = 6
#: Multiple of its length after which a text that does not end is given up.
_PATIENCE: Final = 5
_MAX_DIGITS: Final = 3
#: Words that are sampled, and the number that must fit, for a position to count as text.
_TEXT_SAMPLE: Final = 12
_TEXT_FITS: Final = 3
_MAX_NAMES_TRIED: Final = 12
_CLOSERS: Final = frozenset(b"}])>")
#: Bytes that may follow words: in text, and where no blank is allowed between them.
_STOPS: Final = b".,;"
_SEPARATORS: Final = b"@:./-_"
#: Bytes that are all allowed only inside a string.
_ODD: Final = b"~^x"
_DIGITS: Final = frozenset(b"0123456789")
_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_OPENERS: Final = frozenset(b"{[(<")
#: Weights of byte classes, in a free choice and when the answer should end.
_WEIGHTS: Final = {
    "quote": (40, 40),
    "digit": (30, 40),
    "letter": (30, 30),
    "opener": (10, 0),
    "closer": (5, 80),
    "other": (5, 5),
    "blank": (0, 0),
}


@dataclass(frozen=True)
class Composed:
    """An answer's tokens; `whole`: the answer is complete with them."""

    tokens: list[int]
    whole: bool


def compose(
    plans: Sequence[Plan],
    palette: Palette,
    key: bytes,
    *,
    most: int,
    least: int = 0,
    said: Sequence[int] = (),
    wanted: Callable[[], bool] = lambda: True,
) -> Composed:
    """Compose an answer of up to `most` tokens that continues the tokens `said` and ends after `least` if it can.

    It matches one of the plans, which the key chooses among those that allow `said`. Ends early and incomplete once it
    is no longer `wanted`. Raises GuideError if no plan allows `said`, or no answer matches a plan.
    """
    first = int.from_bytes(key, "little") % len(plans)
    for plan in [*plans[first:], *plans[:first]]:
        draft = _Draft(plan, palette, key)
        try:
            draft.replay(said)
            while len(draft.tokens) < most and wanted():
                if not draft.advance(least):
                    return Composed(draft.tokens, whole=True)
        except GuideError as error:
            refusal = error
            continue
        # The answer may be complete with the last token that there was room for.
        return Composed(draft.tokens[:most], whole=len(draft.tokens) <= most and draft.ended)
    raise refusal


def keeps(plan: Plan, palette: Palette, tokens: Sequence[int]) -> bool:
    """Whether these tokens are a complete answer."""
    draft = _Draft(plan, palette, b"")
    try:
        draft.replay(tokens)
    except GuideError:
        return False
    return draft.may_end


class _Draft:
    """An incomplete answer."""

    def __init__(self, plan: Plan, palette: Palette, key: bytes) -> None:
        self.tokens: list[int] = []
        self._plan, self._palette, self._key = plan, palette, key
        self._matcher: LLMatcher = plan.matcher.deep_copy()
        self._mask = b""
        self._words = 0  # consecutive words of text at its end
        self._digits = 0
        self._last = 0  # last byte
        self._tagged = False

    @property
    def ended(self) -> bool:
        """Whether the guide allows nothing more."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    @property
    def may_end(self) -> bool:
        """Whether it is a complete answer as it is."""
        return self._matcher.is_accepting()

    def replay(self, said: Sequence[int]) -> None:
        """Take over the tokens of an earlier attempt. Raises GuideError."""
        palette = self._palette
        for token in said:
            text = palette.vocabulary.written((token,))
            places = palette.places_of(text) if text else []
            if places is None or not self._matcher.consume_tokens(places):
                raise GuideError("what has been said does not keep to the guide")
            self.tokens.append(token)
            self._note(text)
        written = palette.vocabulary.written(said)
        self._tagged = any(tag.encode() in written for tag in self._plan.tags)

    def advance(self, least: int) -> bool:
        """Add what comes next; False at the end. Raises GuideError."""
        matcher = self._matcher
        if matcher.is_stopped():
            self._check()
            return False
        forced = matcher.compute_ff_bytes()
        if forced and self._say(forced):
            return True
        self._mask = matcher.compute_bitmask()
        self._check()
        may_end = self.may_end and len(self.tokens) >= max(1, least)
        draw = self._draw(len(self.tokens))
        place = self._choice(draw, may_end)
        if place is None:
            return False
        if place >= 0:
            self._take([place])
        return True

    def _choice(self, draw: int, may_end: bool) -> int | None:
        """Return the next token's index; None: the answer ends. -1: several tokens have been added instead."""
        soon = len(self.tokens) > SOON
        if self._plan.tags and self.may_end and not self._words:
            # Where a tag may begin: sometimes before any text, and seldom more than one.
            if self._tagged and may_end and (soon or draw % 4):
                return None
            if (self._tagged or draw & 1) and self._say_tag(draw):
                return -1
        words = self._fitting_words(draw)
        if words is not None:
            return self._in_text(words, draw, soon, may_end)
        if self._digits:
            digits = [byte for byte in sorted(_DIGITS) if self._allows(byte)]
            if digits and self._digits < 1 + draw % _MAX_DIGITS:
                return self._at(digits[(draw >> 8) % len(digits)])
            if may_end:
                return None
            if self._allows(ord(",")) and not self._allows(ord("}")) and not self._allows(ord("]")):
                return self._at(ord(","))
            if self._allows(ord("\n")):
                # Only after a number that is no JSON's alone: there are no blanks in JSON here.
                return self._at(ord("\n"))
        elif may_end and self._last:
            return None
        return self._structural(draw, soon, may_end)

    def _in_text(self, words: list[int], draw: int, soon: bool, may_end: bool) -> int | None:
        """Choose some words, then what ends them."""
        length = 1 + self._draw(len(self.tokens) - self._words, b"length") % (2 if soon else _LONGEST_TEXT)
        if self._words < length and words:
            return words[0]
        if not self._tagged and self._say_tag(draw):
            return -1
        if may_end:
            return None
        # Line breaks are allowed only in free text.
        ends = self._plan.ends
        if ends and self._allows(ord("\n")):
            # Others than its own are text in this text, and so may its own be, in another.
            own = [end for end in ends if self._ends_text(end.encode())]
            if any(self._say(end.encode()) for end in (*own, *ends)):
                return -1
        if self._allows(ord('"')):
            return self._at(ord('"'))
        if words and self._words < length * _PATIENCE:
            return words[0]
        separators = [byte for byte in (_STOPS if self._allows(ord(" ")) else _SEPARATORS) if self._allows(byte)]
        if separators and (words or draw & 1 or not self._allows(ord(" "))):
            first = 0 if separators[0] == ord("@") else (draw >> 8) % len(separators)
            return self._at(separators[first])
        return self._any(draw >> 8, soon, may_end)

    def _ends_text(self, end: bytes) -> bool:
        """Whether free text is over after this."""
        places = self._palette.places_of(end)
        if not places or self._matcher.validate_tokens(places) < len(places):
            return False
        matcher = self._matcher.deep_copy()
        matcher.consume_tokens(places)
        # A byte that is allowed in text alone.
        odd = self._palette.bytes.get(_ODD[0])
        return matcher.is_stopped() or odd is None or matcher.validate_tokens([odd]) == 0

    def _structural(self, draw: int, soon: bool, may_end: bool) -> int | None:
        """Choose outside of text: ends of objects and arrays first, then any byte that fits."""
        more = draw % 16 if not soon else 15
        if self._allows(ord("}")):
            if (more < 9 or not self._plan.names) and not soon and self._property(draw >> 8):
                return -1
            return self._at(ord("}"))
        if self._allows(ord("]")):
            if self._last == ord("["):
                if more >= 13:
                    return self._at(ord("]"))
            elif more < 6 and self._allows(ord(",")):
                return self._at(ord(","))
            else:
                return self._at(ord("]"))
        if self._last == ord("<") and self._allows(ord("/")) and (soon or draw & 1):
            return self._at(ord("/"))
        return self._any(draw >> 8, soon, may_end)

    def _any(self, draw: int, soon: bool, may_end: bool) -> int | None:
        allowed: dict[str, list[int]] = {}
        for byte in self._palette.bytes:
            if self._allows(byte):
                allowed.setdefault(_class(byte), []).append(byte)
        weights = [(_WEIGHTS[name][soon], members) for name, members in sorted(allowed.items())]
        total = sum(weight for weight, _ in weights)
        if not total and (may_end or self.may_end):
            return None
        at = draw % (total or 1)
        for weight, members in weights:
            at -= weight
            if at < 0 or not total:
                return self._at(members[(draw >> 16) % len(members)])
        raise GuideError("no token keeps to the guide here")

    def _fitting_words(self, draw: int) -> list[int] | None:
        """Return words that may come next, the sentence's own first; None where no text may come."""
        palette, begun = self._palette, len(self.tokens) - self._words
        tried: list[int] = []
        if palette.sentences:
            sentence = palette.sentences[self._draw(begun) % len(palette.sentences)]
            tried = sentence[self._words : self._words + _TEXT_SAMPLE]
        bare = palette.bare
        if bare:
            start = draw % len(bare)
            tried = tried + [bare[(start + k) % len(bare)] for k in range(_TEXT_SAMPLE)]
        fitting = [place for place in tried if self._fits(place)]
        if len(fitting) < _TEXT_FITS and not all(map(self._allows, _ODD)):
            return None
        if self._words:
            # Two words without a blank between them would become one.
            fitting = [p for p in fitting if palette.texts[p].startswith(b" ") and palette.ids[p] != self.tokens[-1]]
        return fitting

    def _say_tag(self, draw: int) -> bool:
        """Begin a tag, only where the answer may end: elsewhere its text would be part of a string."""
        tags = self._plan.tags
        if not tags or not self.may_end or not self._say(tags[(draw >> 4) % len(tags)].encode()):
            return False
        self._tagged = True
        return True

    def _property(self, draw: int) -> bool:
        """Continue with another property, named by the schema or, where it has none, freely."""
        names: Sequence[str] = self._plan.names
        if not names:
            bare = self._palette.bare
            if not bare or (self._last != ord("{") and draw % 3 == 0):
                return False
            names = [self._palette.texts[bare[(draw >> 4) % len(bare)]].decode()]
        start = (draw >> 4) % len(names) if self._last == ord("{") and draw % 2 else 0
        before = "" if self._last == ord("{") else ","
        for k in range(min(len(names), _MAX_NAMES_TRIED)):
            name = names[(start + k) % len(names)]
            if self._say(f"{before}{_quoted(name)}:".encode()):
                return True
        return False

    def _say(self, text: bytes) -> bool:
        """Add a text as the tokenizer encodes it, if the guide and the tokens allow it."""
        palette = self._palette
        places = palette.places_of(text)
        if not places or self._matcher.validate_tokens(places) < len(places):
            return False
        vocabulary = palette.vocabulary
        # Tags may be written with control tokens, which is how models begin and end calls.
        ids = vocabulary.tokens_of(text, marked=self._plan.marked)
        if ids is None:
            self._take(places)
            return True
        self._matcher.consume_tokens(places)
        for token in ids:
            self.tokens.append(token)
            self._note(vocabulary.written((token,)))
        return True

    def _take(self, places: Sequence[int]) -> None:
        for place in places:
            self._matcher.consume_token(place)
            self.tokens.append(self._palette.ids[place])
            self._note(self._palette.texts[place])

    def _note(self, text: bytes) -> None:
        if not text:
            return
        self._words = self._words + 1 if len(text) > 1 and text.lstrip(b" ").isalpha() else 0
        self._digits = self._digits + len(text) if text.isdigit() else 0
        self._last = text[-1]

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GuideError(self._matcher.get_error())

    def _fits(self, place: int) -> bool:
        return bool(self._mask[place >> 3] >> (place & 7) & 1)

    def _allows(self, byte: int) -> bool:
        place = self._palette.bytes.get(byte)
        return place is not None and self._fits(place)

    def _at(self, byte: int) -> int:
        return self._palette.bytes[byte]

    def _draw(self, position: int, purpose: bytes = b"") -> int:
        digest = blake2b(self._key + position.to_bytes(8, "little") + purpose, digest_size=8).digest()
        return int.from_bytes(digest, "little")


def _class(byte: int) -> str:
    if byte in _DIGITS:
        return "digit"
    if byte in _LETTERS:
        return "letter"
    if byte in _OPENERS:
        return "opener"
    if byte == ord('"'):
        return "quote"
    if byte in _CLOSERS:
        return "closer"
    return "other" if 0x21 <= byte <= 0x7E and byte != ord("\\") else "blank"


def _quoted(name: str) -> str:
    # As the library writes names: escape only what must be.
    return json.dumps(name, ensure_ascii=False)
