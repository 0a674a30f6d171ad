"""Which texts a Python expression can stand for: constants followed through assignments, defaults and modules."""

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.scan.environment import Environment

Scope = tuple[str, ...]
_MOST: Final = 8
_DEEPEST: Final = 10
_LONGEST: Final = 512
#: Steps that one answer may take: names that are assigned to each other could ask for any number.
_STEPS: Final = 1000
#: Calls that read a variable of the environment; the second argument, or `default`, stands in for it.
_READS: Final = ("getenv", "environ.get", "env.str", "env", "config", "environ.setdefault", "env.get", "get_env")
#: Calls whose value is that of their first argument, or of `default`.
_DEFAULTS: Final = (
    "Field",
    "field",
    "Option",
    "Argument",
    "Query",
    "Body",
    "Form",
    "Setting",
    "str",
    "Path",
    "Parameter",
)


@dataclass(slots=True)
class Module:
    """What other files and rules need of one: constants by scope, attributes, imports, calls and dictionaries."""

    file: str
    name: str
    constants: dict[Scope, dict[str, list[ast.expr]]] = field(default_factory=dict)
    attributes: dict[str, list[ast.expr]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[Scope, ast.Call]] = field(default_factory=list)
    dictionaries: list[tuple[Scope, ast.Dict]] = field(default_factory=list)
    texts: list[tuple[int, str]] = field(default_factory=list)
    #: Variables, attributes and functions that hold or return what a call made, such as a client: name -> calls.
    made: dict[str, list[tuple[Scope, ast.Call]]] = field(default_factory=dict)


def dotted(node: ast.expr) -> str:
    """The name of an expression such as `client.chat.completions.create`; calls within it are left out."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Subscript | ast.Await):
            node = node.value
        else:
            break
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def imported(module: Module, node: ast.expr) -> str:
    """The name of an expression with its first part replaced by what is imported under it."""
    name = dotted(node)
    first, dot, rest = name.partition(".")
    return f"{module.imports.get(first, first)}{dot}{rest}"


class Constants:
    """Looks values up within a module and in the other ones of the tree; every answer is short and bounded."""

    def __init__(self, modules: Sequence[Module], environment: Environment) -> None:
        self._environment = environment
        self._steps = 0
        # `app.config` is found as `config`, too: the folder that is on the path is not known.
        self._modules: dict[str, Module] = {}
        for module in modules:
            parts = module.name.split(".")
            for start in range(len(parts)):
                self._modules.setdefault(".".join(parts[start:]), module)

    def values(self, module: Module, scope: Scope, node: ast.expr | None) -> tuple[str, ...]:
        """The texts that an expression may be, at most 8; none where they are not known."""
        self._steps = _STEPS
        return self._texts(module, scope, node)

    def variable(self, module: Module, scope: Scope, node: ast.expr | None) -> str:
        """The name of the environment's variable that an expression reads, perhaps through a name; empty if none."""
        self._steps = _STEPS
        return self._variable(module, scope, node, 0)

    def _texts(self, module: Module, scope: Scope, node: ast.expr | None) -> tuple[str, ...]:
        if node is None:
            return ()
        found = itertools.islice(self._values(module, scope, node, 0), 4 * _MOST)
        texts = (text for text in found if 0 < len(text) <= _LONGEST)
        return tuple(itertools.islice(dict.fromkeys(texts), _MOST))

    def _variable(self, module: Module, scope: Scope, node: ast.expr | None, depth: int) -> str:
        if node is None or depth > _DEEPEST or self._is_tired():
            return ""
        if isinstance(node, ast.BoolOp):
            return next((name for each in node.values if (name := self._variable(module, scope, each, depth + 1))), "")
        if isinstance(node, ast.Call):
            if dotted(node.func).endswith(_READS) and node.args:
                return _text(node.args[0])
            # SecretStr(os.environ["X"]) and the like.
            return self._variable(module, scope, node.args[0], depth + 1) if len(node.args) == 1 else ""
        if isinstance(node, ast.Subscript) and dotted(node.value).endswith("environ"):
            return _text(node.slice)
        named = self._named(module, scope, node)
        return next((name for at, each in named if (name := self._variable(module, at, each, depth + 1))), "")

    def module(self, name: str) -> Module | None:
        """The scanned module of a dotted name, whichever folder of it is on the path."""
        return self._modules.get(name.lstrip("."))

    def _is_tired(self) -> bool:
        self._steps -= 1
        return self._steps < 0

    def _values(self, module: Module, scope: Scope, node: ast.expr, depth: int) -> Iterator[str]:
        if depth > _DEEPEST or self._is_tired():
            return
        below = depth + 1
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node.value
            elif isinstance(node.value, int) and not isinstance(node.value, bool):
                yield str(node.value)
        elif isinstance(node, ast.JoinedStr):
            yield from self._joined(module, scope, node.values, below, "")
        elif isinstance(node, ast.FormattedValue):
            yield from self._values(module, scope, node.value, below)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
            between = "/" if isinstance(node.op, ast.Div) else ""
            yield from self._joined(module, scope, (node.left, node.right), below, between)
        elif isinstance(node, ast.BoolOp):
            for each in node.values:
                yield from self._values(module, scope, each, below)
        elif isinstance(node, ast.IfExp):
            yield from self._values(module, scope, node.body, below)
            yield from self._values(module, scope, node.orelse, below)
        elif isinstance(node, ast.NamedExpr | ast.Await):
            yield from self._values(module, scope, node.value, below)
        elif isinstance(node, ast.Call):
            yield from self._called(module, scope, node, below)
        elif isinstance(node, ast.Subscript):
            yield from self._subscript(module, scope, node, below)
        elif isinstance(node, ast.Name | ast.Attribute):
            for at, each in self._named(module, scope, node):
                yield from self._values(module, at, each, below)

    def _joined(
        self, module: Module, scope: Scope, parts: Iterable[ast.expr], depth: int, between: str
    ) -> Iterator[str]:
        choices = [tuple(itertools.islice(self._values(module, scope, part, depth), _MOST)) for part in parts]
        yield from (between.join(each) for each in itertools.islice(itertools.product(*choices), _MOST))

    def _called(self, module: Module, scope: Scope, node: ast.Call, depth: int) -> Iterator[str]:
        name, keywords = dotted(node.func), {each.arg: each.value for each in node.keywords if each.arg}
        if name.endswith(_READS) and node.args:
            yield from self._environment.values.get(_text(node.args[0]), ())
            default = node.args[1] if len(node.args) > 1 else keywords.get("default")
            if default is not None:
                yield from self._values(module, scope, default, depth)
        elif name.rpartition(".")[2] in _DEFAULTS:
            default = node.args[0] if node.args else keywords.get("default")
            if default is not None:
                yield from self._values(module, scope, default, depth)

    def _subscript(self, module: Module, scope: Scope, node: ast.Subscript, depth: int) -> Iterator[str]:
        if dotted(node.value).endswith("environ"):
            yield from self._environment.values.get(_text(node.slice), ())
            return
        keys = set(self._values(module, scope, node.slice, depth))
        for at, each in self._named(module, scope, node.value):
            if not isinstance(each, ast.Dict):
                continue
            for key, value in zip(each.keys, each.values, strict=True):
                # With a key that is not known, each entry may be meant.
                if not keys or (key is not None and _text(key) in keys):
                    yield from self._values(module, at, value, depth)

    def _named(self, module: Module, scope: Scope, node: ast.expr) -> Iterator[tuple[Scope, ast.expr]]:
        """Yield what is assigned to a name or attribute in this module; through other modules, by its value alone."""
        if isinstance(node, ast.Name):
            for end in range(len(scope), -1, -1):
                if found := module.constants.get(scope[:end], {}).get(node.id):
                    yield from ((scope[:end], each) for each in found)
                    return
            yield from self._elsewhere(module.imports.get(node.id, ""))
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and (target := module.imports.get(node.value.id)):
                found_there = list(self._elsewhere(f"{target}.{node.attr}"))
                yield from found_there
                if found_there:
                    return
            yield from (((), each) for each in module.attributes.get(node.attr, ()))

    def _elsewhere(self, target: str) -> Iterator[tuple[Scope, ast.expr]]:
        """Yield constant expressions of `package.module.NAME`, or of an attribute of an object there."""
        parts = target.lstrip(".").split(".")
        for end in range(len(parts) - 1, 0, -1):
            module = self._modules.get(".".join(parts[:end]))
            if module is None:
                continue
            found = module.constants.get((), {}).get(parts[end], [])
            if len(parts) > end + 1 or not found:
                found = [*found, *module.attributes.get(parts[-1], ())]
            for each in found:
                # Names in it are of that module, so it is handed out by its values.
                if isinstance(each, ast.Dict):
                    yield (), each
                else:
                    yield from (((), ast.Constant(text)) for text in self._texts(module, (), each))
            return


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def keywords_of(call: ast.Call) -> Mapping[str, ast.expr]:
    """The keyword arguments of a call, those of a literal `**{...}` or `dict(...)` included."""
    found: dict[str, ast.expr] = {}
    for each in call.keywords:
        if each.arg is not None:
            found[each.arg] = each.value
        elif isinstance(each.value, ast.Dict):
            found |= {_text(key): value for key, value in zip(each.value.keys, each.value.values, strict=True) if key}
    return found
