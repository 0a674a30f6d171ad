"""Parse RE2 expressions: find the longest match, and derive an expression for the beginnings of matches.

Reference: github.com/google/re2/wiki/Syntax. RE2 itself validates; this module parses only what RE2 accepts.
"""

import re
from dataclasses import dataclass
from typing import Final

#: One character in source form: an escape, a class, or itself.
_ESCAPE: Final = re.compile(r"\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[pP](?:\{\^?\w+\}|\w)|[0-7]{1,3}|.)", re.DOTALL)
_CLASS: Final = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\(?:[pP]\{\^?\w+\}|x\{[0-9A-Fa-f]+\}|.)|[^\]\\])*\]", re.DOTALL)
_REPEAT: Final = re.compile(r"(?:([*+?])|\{(\d+)(,?)(\d*)\})(\??)")
_GROUP: Final = re.compile(r"\((?:\?P?<\w+>|\?(?P<flags>[imsU]*(?:-[imsU]+)?):|(?!\?))")
_FLAGS: Final = re.compile(r"\(\?([imsU]*(?:-[imsU]+)?)\)")
_ASSERTIONS: Final = ("\\b", "\\B", "\\A", "\\z")
#: The deepest nesting of groups and inline flags; each level takes some of Python's stack.
_DEEPEST: Final = 100


class ExpressionError(ValueError):
    """An expression is unsupported; the text says why."""


@dataclass(frozen=True)
class Node:
    """A part of an expression; `source` is its RE2 syntax with non-capturing groups only.

    `least` and `most` are the shortest and the longest match in characters, None without bound; `begin` matches every
    prefix of a match, the empty text and the whole match included.
    """

    source: str
    least: int
    most: int | None
    begin: str
    is_char: bool = False


@dataclass(frozen=True)
class Expression:
    """A parsed expression: a bounded `head`, and a `tail` that repeats without bound after it."""

    head: Node
    tail: str | None


def parse(pattern: str) -> Expression:
    """Parse an expression that RE2 accepts. Raises ExpressionError for one without bound."""
    parser = _Parser(pattern)
    parts = parser.sequence()
    if parser.at < len(pattern) and pattern[parser.at] == "|":
        return Expression(_bounded(_choice([_joined(parts), *parser.choices()])), None)
    parser.end()
    tail: str | None = None
    last = parts[-1] if parts else None
    if isinstance(last, _Endless):
        parts.pop()
        tail = last.of.source
        if last.least:
            parts.append(_repeated(last.of, last.least, last.least, ""))
    return Expression(_bounded(_joined(parts)), tail)


@dataclass(frozen=True)
class _Endless(Node):
    """`least` or more characters that `of` matches."""

    of: Node = Node("", 0, 0, "")


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._depth = 0
        self.at = 0

    def end(self) -> None:
        if self.at < len(self._pattern):
            raise ExpressionError(f"{self._pattern[self.at :][:20]!r} is not understood")

    def choices(self) -> list[Node]:
        """Parse the alternatives after each `|`, up to the end of the group or the pattern."""
        found: list[Node] = []
        while self._pattern[self.at : self.at + 1] == "|":
            self.at += 1
            found.append(_joined(self.sequence()))
        return found

    def sequence(self) -> list[Node]:
        """Parse the parts of one alternative, up to a `|`, a `)` or the end."""
        parts: list[Node] = []
        flags = ""
        while self.at < len(self._pattern) and self._pattern[self.at] not in "|)":
            found = _FLAGS.match(self._pattern, self.at)
            if found:
                self.at = found.end()
                flags += found[1]
                # Inline flags hold up to the group's end, its other alternatives included.
                rest = self._inner()
                parts.append(Node(f"(?{flags}:{rest.source})", rest.least, rest.most, f"(?{flags}:{rest.begin})"))
                break
            parts.append(self._repeats(self._atom()))
        return parts

    def _inner(self) -> Node:
        """Parse all alternatives up to the group's end."""
        if self._depth == _DEEPEST:
            raise ExpressionError(f"its groups are nested more than {_DEEPEST} deep")
        self._depth += 1
        inner = _choice([_joined(self.sequence()), *self.choices()])
        self._depth -= 1
        return inner

    def _atom(self) -> Node:
        pattern, at = self._pattern, self.at
        char = pattern[at]
        if char == "(":
            return self._group()
        if char in "^$" or pattern.startswith(_ASSERTIONS, at):
            self.at += 1 if char in "^$" else 2
            return Node(pattern[at : self.at], 0, 0, "")
        if pattern.startswith(r"\Q", at):
            raise ExpressionError(r"\Q is not supported; escape each character by itself")
        if pattern.startswith(r"\C", at):
            raise ExpressionError(r"\C is not supported: text is not cut into bytes")
        found = _ESCAPE.match(pattern, at) if char == "\\" else _CLASS.match(pattern, at) if char == "[" else None
        self.at = found.end() if found else at + 1
        source = pattern[at : self.at]
        return Node(source, 1, 1, f"{source}?", is_char=True)

    def _group(self) -> Node:
        found = _GROUP.match(self._pattern, self.at)
        if not found:
            raise ExpressionError(f"{self._pattern[self.at :][:20]!r} is not supported")
        self.at = found.end()
        inner = self._inner()
        if self._pattern[self.at : self.at + 1] != ")":
            raise ExpressionError("a group has no end")
        self.at += 1
        flags = found["flags"] or ""
        source, begin = f"(?{flags}:{inner.source})", f"(?{flags}:{inner.begin})"
        return Node(source, inner.least, inner.most, begin, is_char=inner.is_char)

    def _repeats(self, node: Node) -> Node:
        while found := _REPEAT.match(self._pattern, self.at):
            self.at = found.end()
            sign, least_text, comma, most_text, lazy = found.groups()
            if sign:
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
            else:
                least = int(least_text)
                most = least if not comma else int(most_text) if most_text else None
            node = _repeated(node, least, most, lazy)
        return node


def _repeated(node: Node, least: int, most: int | None, lazy: str) -> Node:
    source = f"(?:{node.source})"
    if most is None:
        begin = f"(?:{source}*{_as_one(node.begin)})"
        if node.is_char and not lazy:
            return _Endless(f"{source}{{{least},}}", least, None, begin, of=node)
        return Node(f"{source}{{{least},}}{lazy}", node.least * least, None if node.most != 0 else 0, begin)
    begin = f"(?:{source}{{0,{most - 1}}}{_as_one(node.begin)})" if most else ""
    longest = None if node.most is None else node.most * most
    return Node(f"{source}{{{least},{most}}}{lazy}", node.least * least, longest, begin)


def _joined(parts: list[Node]) -> Node:
    source = "".join(_as_one(part.source) if "|" in part.source else part.source for part in parts)
    most: int | None = 0
    begin = ""
    for part in reversed(parts):
        most = None if most is None or part.most is None else most + part.most
        whole = _as_one(part.source)
        if not begin:
            begin = part.begin
        elif part.is_char or part.most == 0:
            begin = f"(?:{whole}{_as_one(begin)})?"
        else:
            begin = f"(?:{whole}{_as_one(begin)}|{part.begin})"
    least = sum(part.least for part in parts)
    return Node(source, least, most, begin, is_char=len(parts) == 1 and parts[0].is_char)


def _choice(nodes: list[Node]) -> Node:
    if len(nodes) == 1:
        return nodes[0]
    widths = [node.most for node in nodes]
    known = [width for width in widths if width is not None]
    return Node(
        "|".join(node.source for node in nodes),
        min(node.least for node in nodes),
        max(known) if len(known) == len(widths) else None,
        "|".join(node.begin for node in nodes),
        is_char=all(node.is_char for node in nodes),
    )


def _as_one(source: str) -> str:
    return f"(?:{source})"


def _bounded(node: Node) -> Node:
    if node.most is None:
        raise ExpressionError(
            "it can match without bound, and all of that would have to be held back; write {1,40} in place of + or * "
            "(one character or class may repeat without bound at the end of an expression without |)"
        )
    return node
