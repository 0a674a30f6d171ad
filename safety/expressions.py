"""A filter for the operator's regular expressions, on RE2: linear in the text whatever the expression.

A stream holds back text from where a match may have begun, and no more: `expression_syntax` derives an expression for
the beginnings of matches from each, and the stream searches for it at the end of the text received so far.
"""

from collections.abc import Sequence
from typing import Any, Final

import re2

from safety.expression_syntax import Expression, ExpressionError, parse
from safety.folding import without_surrogates
from safety.match import Match

#: The longest match of an expression without its unbounded tail, in characters.
MOST_CHARACTERS: Final = 512
#: RE2's memory bound for all expressions of one filter, in bytes.
_MEMORY: Final = 64 << 20


class BadExpression(ValueError):
    """An expression is unusable; `index` is its place in the list."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index
        self.problem = problem


class ExpressionFilter:
    """A `StreamFilter` for a list of expressions: the leftmost match wins, at one place the earlier expression's."""

    signs: Final = None

    def __init__(self, label: str, patterns: Sequence[str], *, ignore_case: bool = False) -> None:
        """Raises BadExpression."""
        self.label = label
        flags = "(?i)" if ignore_case else ""
        parsed = [_checked(index, pattern, flags) for index, pattern in enumerate(patterns)]
        self.window = max(expression.head.most or 0 for expression in parsed)
        self.tails = [
            None if expression.tail is None else _compiled(f"{flags}(?:{expression.tail})*") for expression in parsed
        ]
        try:
            heads = "|".join(f"({expression.head.source})" for expression in parsed)
            self.heads = _compiled(flags + heads)
            self.whole = _compiled(flags + "|".join(f"(?:{_with_tail(expression)})" for expression in parsed))
            begin = "|".join(f"(?:{expression.head.begin})" for expression in parsed)
            self.begin = _compiled(rf"{flags}(?:{begin})\z")
        except re2.error as error:
            raise BadExpression(len(parsed) - 1, f"all of them together are too large: {_text(error)}") from error

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        del plain
        try:
            found = self.whole.finditer(text)
            return [Match(match.start(), match.end(), self.label) for match in found]
        except UnicodeEncodeError:
            return self.scan(without_surrogates(text))

    def stream(self) -> "ExpressionStream":
        return ExpressionStream(self)


class ExpressionStream:
    """The `Stream` of an ExpressionFilter. It holds the text that may be a match, and the character before it."""

    __slots__ = ("_filter", "_held", "_start", "_tail", "open")

    def __init__(self, of: ExpressionFilter) -> None:
        self._filter = of
        self._held = ""
        #: Where in the whole text `_held` starts.
        self._start = 0
        #: The compiled tail of the last match, while it may go on.
        self._tail: Any = None
        self.open = 0

    def feed(self, text: str) -> Sequence[Match]:
        return self._advance(text, last=False) if text else ()

    def finish(self) -> Sequence[Match]:
        return self._advance("", last=True)

    def _advance(self, piece: str, *, last: bool) -> list[Match]:
        of = self._filter
        text = self._held + without_surrogates(piece)
        at = self.open - self._start
        matches: list[Match] = []
        if self._tail is not None:
            at = self._extend(text, at, matches)
        if self._tail is None:
            undecided = len(text) if last else self._undecided(text, at)
            for found in of.heads.finditer(text, at):
                start, end = found.span()
                if start >= undecided and not last:
                    break
                matches.append(self._match(start, end))
                at = end
                self._tail = of.tails[_group(found)]
                if self._tail is not None:
                    at = self._extend(text, at, matches)
                    rest = self._rest(text, at, undecided, last)
                    matches += rest
                    return matches
            at = max(at, undecided)
        self._hold(text, at)
        return matches

    def _rest(self, text: str, at: int, undecided: int, last: bool) -> list[Match]:
        """Search on after a match with a tail; the search for heads does not see tails."""
        self._hold(text, at)
        if self._tail is not None or at >= len(text):
            return []
        return self._advance("", last=last)

    def _extend(self, text: str, at: int, matches: list[Match]) -> int:
        """Extend the last match by its tail; return its end. The match is complete when another character follows."""
        found = self._tail.match(text, at)
        end = found.end() if found else at
        if end > at:
            matches.append(self._match(at, end))
        if end < len(text):
            self._tail = None
        return int(end)

    def _undecided(self, text: str, at: int) -> int:
        """The start of the first match that later text may complete or extend."""
        # No undecided match begins further back than the longest match.
        near = max(at, len(text) - self._filter.window)
        found = self._filter.begin.search(text, near)
        return int(found.start()) if found else len(text)

    def _match(self, start: int, end: int) -> Match:
        return Match(self._start + start, self._start + end, self._filter.label)

    def _hold(self, text: str, at: int) -> None:
        self.open = self._start + at
        keep = max(0, at - 1)
        self._start += keep
        self._held = text[keep:]


def _checked(index: int, pattern: str, flags: str) -> Expression:
    try:
        pattern.encode()
        _compiled(flags + pattern)
    except UnicodeEncodeError:
        raise BadExpression(index, "it has half a surrogate pair") from None
    except re2.error as error:
        raise BadExpression(index, f"not an expression of RE2: {_text(error)}") from error
    try:
        expression = parse(pattern)
    except ExpressionError as error:
        raise BadExpression(index, str(error)) from error
    most = expression.head.most or 0
    if most > MOST_CHARACTERS:
        raise BadExpression(
            index, f"it can match {most} characters, which would have to be held back; at most {MOST_CHARACTERS} are"
        )
    if not expression.head.least:
        raise BadExpression(index, "it matches the empty text, so everywhere")
    return expression


def _with_tail(expression: Expression) -> str:
    head = f"(?:{expression.head.source})"
    return head if expression.tail is None else f"{head}(?:{expression.tail})*"


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    return re2.compile(pattern, options)


def _group(found: Any) -> int:
    return next(index for index, text in enumerate(found.groups()) if text is not None)


def _text(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.decode(errors="replace") if isinstance(first, bytes) else str(first)
