"""The expression that a tokenizer's Python file cuts texts by, read as data: nothing of the file is run."""

import ast
from pathlib import Path
from typing import Any, Final

from gateway.text.tokens.tokenizer import TokenizerError

#: The name that such files give it, whatever its case.
_NAME: Final = "pat_str"
_MOST_BYTES: Final = 1 << 20


def expression_in(path: Path) -> str:
    """Find the one expression that a file assigns to `pat_str`, or calls something with as `pat_str`.

    It may be a string, strings that are added, or `"|".join` of a list of them. Raises TokenizerError.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read: {error.strerror}") from error
    if len(source) > _MOST_BYTES:
        raise TokenizerError(f"{path}: more than {_MOST_BYTES} bytes, which no tokenizer's file has")
    try:
        tree = ast.parse(source)
        found = {text for node in ast.walk(tree) for text in _named(node)}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TokenizerError(f"{path}: not a Python file that can be read: {type(error).__name__}") from None
    if len(found) != 1:
        raise TokenizerError(f"{path}: {len(found) or 'no'} different texts as {_NAME}; there has to be one")
    return found.pop()


def _named(node: ast.AST) -> list[str]:
    """Give the texts that a node gives the name to; what is no text is none."""
    values: list[ast.expr | None] = []
    match node:
        case ast.Assign(targets=targets, value=value):
            values = [value for target in targets if _is_named(target)]
        case ast.AnnAssign(target=target, value=value) if _is_named(target):
            values = [value]
        case ast.keyword(arg=str(name), value=value) if name.lower() == _NAME:
            values = [value]
    return [text for value in values if isinstance(text := _text(value), str)]


def _is_named(target: ast.expr) -> bool:
    name = target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
    return name.lower() == _NAME


def _text(node: ast.expr | None) -> Any:
    """Give the text of constants that are put together; None for anything else."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            both = _text(left), _text(right)
            return None if None in both else "".join(both)
        case ast.Call(
            func=ast.Attribute(value=between, attr="join"),
            args=[ast.List(elts=parts) | ast.Tuple(elts=parts)],
            keywords=[],
        ):
            texts, separator = [_text(part) for part in parts], _text(between)
            return None if separator is None or None in texts else separator.join(texts)
    return None
