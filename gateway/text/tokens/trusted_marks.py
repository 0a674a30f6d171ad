"""Separation of a chat template's control tokens from the same characters in a message.

A rendered chat is one string, and `[INST]` in it may be the template's or a caller's. So the template is rewritten
once, when it is loaded: every control token that its own text or string constants write is put between two marks that
nobody else can write, since they hold a random number. What is between marks in the result is a control token, all the
rest is text. Messages are not touched, so a template may trim, split or test them as it likes.
"""

import re
import secrets
from collections.abc import Collection, Iterable, Iterator

from jinja2 import nodes

_NONCE = secrets.token_hex(8)
_OPEN = f"\ufdd0{_NONCE}\ufdd1"
_CLOSE = f"\ufdd1{_NONCE}\ufdd0"
_MARKED = re.compile(f"{_OPEN}(.*?){_CLOSE}", re.DOTALL)

#: The name by which a rewritten template calls `Marks.join`.
JOIN = "_join_trusted"

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})

# Filters and functions that pass a constant argument into the result; others compare, search or cut with it.
_FLOWING_FILTERS = frozenset({"default", "d", "join"})
_FLOWING_METHODS = frozenset({"format", "join"})


class Marks:
    """Random marks around the control tokens of one vocabulary."""

    def __init__(self, specials: Collection[str]) -> None:
        """`specials` are the control tokens' texts."""
        longest_first = sorted(specials, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def add(self, text: str) -> str:
        """Mark the control tokens in a text."""
        return self._special.sub(lambda match: f"{_OPEN}{match[0]}{_CLOSE}", text)

    def find(self, text: str) -> list[str]:
        """The control tokens in an unmarked text, in order."""
        return self._special.findall(text)

    def join(self, *parts: object) -> str:
        """Join the parts, and mark the result if all of it is the template's: constants and names of roles.

        Some templates write `'<|' + message.role + '|>'`; a role is one of five words, so the whole is the template's.
        """
        text = "".join(map(str, parts))
        trusted = all(part in ROLES for part in parts[1::2])
        return self.add(text) if trusted else text

    def rewrite(self, tree: nodes.Template) -> None:
        """Add the marks to a parsed template, in place."""
        self._visit(tree, flows=True)

    def _visit(self, node: nodes.Node, *, flows: bool) -> None:
        """Visit a node; `flows`: its value can reach the result, rather than only decide something."""
        match node:
            case nodes.TemplateData():
                node.data = self.add(node.data)
            case nodes.Const(value=str(text)) if flows:
                # Text that a template calls safe stays so: it escapes what is added to it.
                node.value = type(text)(self.add(text))
            case nodes.Output():
                node.nodes = list(self._group(node.nodes))
            case nodes.Add() | nodes.Concat() if flows:
                self._regroup(node)
        for child, child_flows in _children(node, flows):
            self._visit(child, flows=child_flows)

    def _regroup(self, node: nodes.Add | nodes.Concat) -> None:
        parts = list(self._group(_operands(node)))
        if isinstance(node, nodes.Concat):
            node.nodes = parts
            return
        *rest, last = parts
        if not rest:
            # An Add cannot be replaced by its only part in place; adding an empty string keeps it a string.
            rest = [nodes.Const("", lineno=node.lineno)]
        left: nodes.Expr = rest[0]
        for part in rest[1:]:
            left = nodes.Add(left, part, lineno=node.lineno)
        node.left, node.right = left, last

    def _group(self, parts: Iterable[nodes.Expr]) -> Iterator[nodes.Expr]:
        """Yield the parts of a text, with adjacent parts of the template's own merged if tokens may span them."""
        run: list[nodes.Expr] = []
        for part in parts:
            if _own_text(part) is None and not _is_role(part):
                yield from self._merge(run)
                run = []
                yield part
            else:
                run.append(part)
        yield from self._merge(run)

    def _merge(self, run: list[nodes.Expr]) -> Iterator[nodes.Expr]:
        if len(run) < 2:
            yield from run
            return
        # Texts and roles in turn, the arguments of `join`.
        texts, roles = [""], []
        for part in run:
            text = _own_text(part)
            if text is None:
                roles.append(part)
                texts.append("")
            else:
                texts[-1] += text
        line = run[0].lineno
        args: list[nodes.Expr] = [nodes.Const(texts[0], lineno=line)]
        for role, text in zip(roles, texts[1:], strict=True):
            args += [role, nodes.Const(text, lineno=line)]
        if roles:
            yield nodes.Call(nodes.Name(JOIN, "load", lineno=line), args, [], None, None, lineno=line)
        else:
            yield args[0]


def written(tree: nodes.Template, tokens: Collection[str]) -> frozenset[str]:
    """Find the tokens that a parsed template itself writes, and rewrite it.

    White space and plain words are no marks, though some vocabularies have them among their added tokens.
    """
    marks = Marks([token for token in tokens if not token.isspace() and not token.isalnum()])
    marks.rewrite(tree)
    found: set[str] = set()
    for node in tree.find_all((nodes.TemplateData, nodes.Const, nodes.Call)):
        text = _own_text(node) if isinstance(node, nodes.Expr) else None
        if text is not None:
            found.update(pieces(text)[1::2])
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name == JOIN:
            for role in ROLES:
                found.update(marks.find("".join(_own_text(part) or role for part in node.args)))
    return frozenset(found)


def _operands(node: nodes.Expr) -> Iterator[nodes.Expr]:
    if isinstance(node, nodes.Add):
        yield from _operands(node.left)
        yield from _operands(node.right)
    elif isinstance(node, nodes.Concat):
        for part in node.nodes:
            yield from _operands(part)
    else:
        yield node


def _own_text(node: nodes.Expr) -> str | None:
    match node:
        case nodes.TemplateData(data=str(text)) | nodes.Const(value=str(text)):
            return text
    return None


def _is_role(node: nodes.Expr) -> bool:
    match node:
        case nodes.Getattr(attr="role") | nodes.Getitem(arg=nodes.Const(value="role")):
            return True
    return False


def _children(node: nodes.Node, flows: bool) -> Iterator[tuple[nodes.Node, bool]]:
    """Yield child nodes, each with whether its value can reach the result."""
    stays: set[str] = set()
    match node:
        case nodes.If() | nodes.CondExpr() | nodes.For():
            stays = {"test"}
        case nodes.Compare() | nodes.Test() | nodes.Not():
            flows = False
        case nodes.Getitem():
            stays = {"arg"}
        case nodes.Filter(name=name) if name not in _FLOWING_FILTERS:
            stays = {"args", "kwargs"}
        case nodes.Call(node=nodes.Name(name=name)) if name == JOIN:
            return
        case nodes.Call(node=nodes.Getattr(attr=method)) if method not in _FLOWING_METHODS:
            stays = {"args", "kwargs"}
    flows = flows or isinstance(node, nodes.Stmt)
    for field, value in node.iter_fields():
        children = value if isinstance(value, list) else [value]
        for child in children:
            if isinstance(child, nodes.Node):
                yield child, flows and field not in stays


def unmarked(text: str) -> str:
    """Remove the marks from a text."""
    return text.replace(_OPEN, "").replace(_CLOSE, "")


def pieces(text: str) -> list[str]:
    """Cut a marked text into texts and control tokens in turn, first and last a text (maybe empty)."""
    return _MARKED.split(text)
