"""Read one Python file into what is needed of it; its syntax tree is not kept."""

import ast
import json
import warnings
from typing import Final, TypeVar

from gateway.scan.names import is_model_key
from gateway.scan.python.call_rules import CALLS, CLIENTS
from gateway.scan.python.constants import Module, Scope, dotted, imported

T = TypeVar("T")
_MOST_CALLS: Final = 20_000
_MOST_VALUES: Final = 16
_READS: Final = ("getenv", "get")
#: Nodes that say something by themselves, and nodes without anything below them.
_TELLING: Final = frozenset(
    {
        *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.NamedExpr),
        *(ast.Import, ast.ImportFrom, ast.Call, ast.Dict, ast.Return, ast.withitem, ast.Constant),
    }
)
_LEAVES: Final = frozenset({ast.Load, ast.Store, ast.Del, ast.Name, ast.Add, ast.And, ast.Or, ast.Not, ast.Eq, ast.Is})
#: Expressions whose texts can be followed.
_VALUES: Final = (
    *(ast.Constant, ast.JoinedStr, ast.BinOp, ast.BoolOp, ast.IfExp, ast.Call, ast.Subscript, ast.Name, ast.Attribute),
    *(ast.Dict, ast.Await, ast.NamedExpr),
)


class NoPythonError(ValueError):
    """A file that cannot be read as Python; the text says why."""


def parse_python(file: str, text: str) -> Module:
    """Read a module.

    Raises:
        NoPythonError: It is no Python of this version, or is nested too deeply.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes and comparisons in the scanned code
            tree = ast.parse(text)
    except SyntaxError as error:
        raise NoPythonError(f"line {error.lineno or 1}: no Python that can be read: {error.msg}") from error
    except (RecursionError, MemoryError) as error:
        raise NoPythonError("nested too deeply") from error
    except ValueError as error:
        raise NoPythonError(str(error)) from error
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = Module(file, name)
    # A stack, not recursion: what the parser accepts may be nested more deeply than Python's own stack goes.
    waiting: list[tuple[Scope, ast.AST]] = [((), tree)]
    while waiting:
        scope, node = waiting.pop()
        inner = _learn(module, scope, node) if type(node) in _TELLING else scope
        below: list[tuple[Scope, ast.AST]] = []
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                below.extend((inner, each) for each in value if isinstance(each, ast.AST))
            elif isinstance(value, ast.AST) and type(value) not in _LEAVES:
                below.append((inner, value))
        below.reverse()
        waiting.extend(below)
    return module


def notebook_code(text: str) -> str:
    """The code of a notebook's cells, each of which starts on the line of its number; magics are left out.

    Raises:
        NoPythonError: It is no notebook.
    """
    try:
        cells = json.loads(text)["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NoPythonError("no notebook that can be read") from error
    lines = [line for cell in code for line in cell.splitlines()]
    return "\n".join("pass" if line.lstrip().startswith(("%", "!", "?")) else line for line in lines)


def _learn(module: Module, scope: Scope, node: ast.AST) -> Scope:
    """Note what one node says; returns the scope of the nodes below it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        inner = (*scope, getattr(node, "name", "<lambda>"))
        _parameters(module, inner, node.args)
        return inner
    if isinstance(node, ast.ClassDef):
        return (*scope, node.name)
    if isinstance(node, ast.Assign):
        for target in node.targets:
            _assigned(module, scope, target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        _assigned(module, scope, node.target, node.value)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            module.imports[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )
    elif isinstance(node, ast.ImportFrom):
        origin = _origin(module, node)
        for alias in node.names:
            module.imports[alias.asname or alias.name] = f"{origin}.{alias.name}"
    elif isinstance(node, ast.Call):
        _option(module, node)
        if _is_wanted(module, node) and len(module.calls) < _MOST_CALLS:
            module.calls.append((scope, node))
    elif isinstance(node, ast.Dict):
        if any(_is_telling(_key(key)) for key in node.keys) and len(module.dictionaries) < _MOST_CALLS:
            module.dictionaries.append((scope, node))
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Call) and scope:
        _note(module.made, scope[-1], (scope, node.value))
    elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
        _assigned(module, scope, node.optional_vars, node.context_expr)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "://" in node.value[:2048]:
        module.texts.append((node.lineno, node.value[:2048]))
    return scope


def _is_wanted(module: Module, call: ast.Call) -> bool:
    """Whether a call may name a model or make a client; no other one is kept."""
    last = imported(module, call.func).rpartition(".")[2]
    return (
        last in CALLS
        or last in CLIENTS
        or last in _READS
        or any(map(_is_telling, (each.arg for each in call.keywords)))
    )


def _is_telling(name: object) -> bool:
    """Whether a keyword or key may hold a model's id, wherever it stands."""
    return isinstance(name, str) and (name in ("id", "litellm_params") or is_model_key(name))


def _key(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _note(known: dict[str, list[T]], name: str, value: T) -> None:
    """Keep what a name is given; of very many, the first ones."""
    values = known.setdefault(name, [])
    if len(values) < _MOST_VALUES:
        values.append(value)


def _assigned(module: Module, scope: Scope, target: ast.expr, value: ast.expr) -> None:
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for each, part in zip(target.elts, value.elts, strict=False):
            _assigned(module, scope, each, part)
        return
    name = ""
    if isinstance(target, ast.Name):
        name = target.id
        if not isinstance(value, _VALUES):
            return
        _note(module.constants.setdefault(scope, {}), name, value)
        if scope and scope[-1][:1].isupper():
            _note(module.attributes, name, value)
    elif isinstance(target, ast.Attribute):
        name = target.attr
        _note(module.attributes, name, value)
    inner = value.value if isinstance(value, ast.Await) else value
    if name and isinstance(inner, ast.Call):
        _note(module.made, name, (scope, inner))


def _parameters(module: Module, scope: Scope, arguments: ast.arguments) -> None:
    names = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(names), reversed(arguments.defaults), strict=False)]
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    for name, value in pairs:
        _note(module.constants.setdefault(scope, {}), name.arg, value)
        # Of `__init__(self, model="...")`, which is kept as `self.model = model`.
        _note(module.attributes, name.arg, value)


def _option(module: Module, call: ast.Call) -> None:
    """Note the default of an option of argparse or click, which is read as an attribute."""
    kind = dotted(call.func).rpartition(".")[2]
    if kind not in ("add_argument", "option"):
        return
    default = next((each.value for each in call.keywords if each.arg == "default"), None)
    for each in call.args:
        if default is not None and isinstance(each, ast.Constant) and str(each.value).startswith("--"):
            name = str(each.value).lstrip("-").replace("-", "_")
            _note(module.attributes, name, default)
            if kind == "option":  # of click, which gives it to the function as a parameter
                _note(module.constants.setdefault((), {}), name, default)


def _origin(module: Module, node: ast.ImportFrom) -> str:
    """The absolute name of the module that is imported from."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    package = parts if module.file.endswith("__init__.py") else parts[:-1]
    package = package[: len(package) - node.level + 1]
    return ".".join([*package, node.module] if node.module else package)
