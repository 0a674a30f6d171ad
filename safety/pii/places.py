"""Find candidates for the rules of all tables in one pass over a text.

Hyperscan searches for the rules' expressions without lookaround, so it finds more places; the rule then decides with
`re`.
"""

import re
from functools import cache
from typing import Final, NamedTuple, Protocol

from safety.patterns import CHARACTERS, LETTERS, STARTS, Patterns, Sign
from safety.pii import emails, numbers
from safety.pii.checksums import CHECKS
from safety.pii.context import is_address, is_labelled, is_not_labelled_otherwise
from safety.pii.kinds import SECRETS
from safety.pii.loosened import loosened
from safety.pii.rule_tables import lines
from safety.pii.text_window import BEGINS, LEFT, RUNS, Found, Runs, view_end
from safety.pii.values import VALUES

#: Every match has one of these in it or up to REACH before it: text without one nearby is skipped.
TRIGGER: Final = re.compile(r"[\d@＠=＝:：>(（+＋_\[{<%#$^~]|--|sk-|[A-Z]{3}")
REACH: Final = 32


class Rule(Protocol):
    """A rule: finds a value at a candidate place of a text."""

    @property
    def reach(self) -> int:
        """The most characters from where its expression begins to where a value begins."""
        ...

    def place(self, text: str, start: int) -> int:
        """Return where a value would begin whose expression begins at `start`; -1 if nowhere."""
        ...

    def at(self, text: str, start: int, place: int) -> Found | None:
        """Return the value that begins at `place`, or None."""
        ...


_AT_BEGIN: Final = re.compile(BEGINS)


class _PatternRule:
    """A line of `tokens.txt` or `codes.txt`."""

    reach: Final = 0

    def __init__(self, kind: str, form: str, check: str, context: str, runs: Runs, *, code: bool) -> None:
        self._kind = kind
        self._form = re.compile(form.replace(r"\x{a0}", r"\xa0") + (r"(?![A-Za-z0-9_])" if code else ""))
        self._check = CHECKS[check]
        self._context = _CONTEXTS[context]
        self._runs = runs
        self._separators = "" if not code else " -()\u00a0" if check in _DOTTED else " -.()\u00a0"

    def place(self, text: str, start: int) -> int:
        return start if _AT_BEGIN.match(text, start) else -1

    def at(self, text: str, start: int, place: int) -> Found | None:
        found = self._form.match(text, place, view_end(text, place))
        if found is None:
            return None
        code = found[0]
        if self._separators:
            code = code.translate(dict.fromkeys(map(ord, self._separators))).upper()
        if not self._check(code) or not self._context(self._kind, text, place, code):
            return None
        return Found(self._kind, place, found.end(), self._runs)


#: Checks that need the dots.
_DOTTED: Final = ("ipv4", "ipv6", "mac")
_CONTEXTS: Final = {
    "-": lambda *_: True,
    "label": is_labelled,
    "no_part": is_not_labelled_otherwise,
    "address": is_address,
}


class _NumberRule:
    reach: Final = 3

    def place(self, text: str, start: int) -> int:
        before = numbers.BEFORE.match(text, start)
        place = start if before is None else before.end()
        return place if _AT_BEGIN.match(text, place) else -1

    def at(self, text: str, start: int, place: int) -> Found | None:
        end = view_end(text, place)
        for at in range(place, min(place + 3, end)):
            found = numbers.number_at(text, at, end)
            if found is not None or text[at] not in "+(（＋":
                return found
        return None


class _EmailRule:
    reach: Final = 0

    def place(self, text: str, start: int) -> int:
        return emails.email_place(text, start)

    def at(self, text: str, start: int, place: int) -> Found | None:
        return emails.email_at(text, place)


class _Table(NamedTuple):
    """The rules in order of precedence; Hyperscan's expressions, and the index of each one's rule."""

    rules: tuple[Rule, ...]
    signs: tuple[Sign, ...]
    numbers: tuple[int, ...]


@cache
def table() -> _Table:
    """Build the table of all rules, once."""
    rules: list[Rule] = []
    signs: list[Sign] = []
    numbers_: list[int] = []

    def add(rule: Rule, *expressions: str, flags: int = CHARACTERS) -> None:
        new = [Sign(each.encode(), flags) for expression in expressions for each in loosened(expression)]
        numbers_.extend([len(rules)] * len(new))
        signs.extend(new)
        rules.append(rule)

    for kind, form, check, run, *_ in lines("tokens.txt"):
        add(_PatternRule(kind, form, check, "-", RUNS[run], code=False), form)
    secrets = [value for value in VALUES if value.kind in SECRETS]
    for value in secrets:
        add(value, value.sign, flags=CHARACTERS | LETTERS)
    add(_EmailRule(), *emails.SIGNS)
    for kind, form, check, context in lines("codes.txt"):
        add(_PatternRule(kind, form, check, context, (), code=True), form)
    add(_NumberRule(), *numbers.SIGNS)
    for value in VALUES:
        if value not in secrets:
            add(value, value.sign, flags=CHARACTERS | LETTERS)
    return _Table(tuple(rules), tuple(signs), tuple(numbers_))


@cache
def _patterns() -> Patterns:
    _, signs, numbers_ = table()
    return Patterns([sign.expression for sign in signs], [sign.flags | STARTS for sign in signs], numbers=numbers_)


def prepare_places() -> None:
    """Compile the expressions of all rules, once."""
    _patterns()


def candidates(text: str, data: bytes, start: int = 0) -> list[tuple[int, int, int]]:
    """Return the candidates from `start` on, in order, as (place, index of the rule, start of its expression).

    `data` is the text's UTF-8, with any one byte in place of a lone surrogate.
    """
    return candidates_and_names(text, data, start)[0]


def candidates_and_names(text: str, data: bytes, start: int) -> tuple[list[tuple[int, int, int]], bool]:
    """Return the same, and whether the text has a name after which a value may begin."""
    rules = table().rules
    found = _patterns().starts(data)
    if not found:
        return [], False
    places: set[tuple[int, int, int]] = set()
    named = False
    same = len(data) == len(text)
    behind = at = 0
    for byte, number in sorted(found):
        at = byte if same else at + len(data[behind:byte].decode())
        behind = byte
        rule = rules[number]
        reach = rule.reach
        named = named or reach == LEFT
        if at + reach >= start:
            place = rule.place(text, at)
            if place >= start:
                places.add((place, number, at))
    return sorted(places), named
