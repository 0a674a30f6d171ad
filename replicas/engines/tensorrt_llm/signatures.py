"""Checks the manifest against a wheel's sources by parsing them: importing them needs a GPU's libraries."""

import ast
import zipfile
from collections.abc import Callable
from pathlib import Path

from replicas.engines.tensorrt_llm.manifest import MANIFEST, Signature

Read = Callable[[str], str | None]


def check(root: Path, manifest: tuple[Signature, ...] = MANIFEST) -> tuple[list[str], list[str]]:
    """Return what is missing in a wheel (or its unpacked folder): required names, then optional ones.

    Raises ValueError if it has no tensorrt_llm, or only the registry's stub.
    """
    checker = _Checker(_reader(root))
    if checker.module("tensorrt_llm") is None or checker.module("tensorrt_llm.llmapi.llm") is None:
        raise ValueError(f"{root} has no tensorrt_llm in it, or a stub")
    needed: list[str] = []
    optional: list[str] = []
    for signature in manifest:
        (optional if signature.optional else needed).extend(checker.missing(signature))
    return needed, optional


def _reader(root: Path) -> Read:
    """Return a function that reads the source at a path below the root; None where there is none."""
    if root.is_file():
        archive = zipfile.ZipFile(root)
        names = set(archive.namelist())
        return lambda path: archive.read(path).decode() if path in names else None

    def read(path: str) -> str | None:
        file = root / path
        return file.read_text(encoding="utf-8") if file.is_file() else None

    return read


class _Checker:
    """Looks up names in parsed modules, each parsed once."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._modules: dict[str, ast.Module | None] = {}

    def module(self, name: str) -> ast.Module | None:
        if name not in self._modules:
            path = name.replace(".", "/")
            source = self._read(f"{path}.py")
            if source is None:
                source = self._read(f"{path}/__init__.py")
            self._modules[name] = None if source is None else ast.parse(source)
        return self._modules[name]

    def missing(self, signature: Signature) -> list[str]:
        for place in signature.at:
            node = self._find(place)
            if node is None:
                continue
            if isinstance(node, ast.ClassDef):
                keywords = attributes = self._members(node, place.split(":")[0])
                if "__init__" in attributes:
                    keywords = keywords | self._constructor(node, place.split(":")[0])
            else:
                keywords, attributes = _parameters(node), set()
            lacking = [f"{place}({name}=)" for name in signature.keywords if name not in keywords]
            return lacking + [f"{place}.{name}" for name in signature.attributes if name not in attributes]
        return [signature.at[0]]

    def _find(self, place: str) -> "ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | None":
        module, _, path = place.partition(":")
        found: ast.AST | None = self.module(module)
        for name in path.split("."):
            found = next((node for node in _definitions(found) if node.name == name), None)
        return found if isinstance(found, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else None

    def _members(self, node: ast.ClassDef, module: str) -> set[str]:
        """Return fields, methods and attributes set on `self`, with those of bases in the same module."""
        names: set[str] = set()
        for child in ast.walk(node):
            if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store):
                names.add(child.attr)
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                names.add(statement.target.id)
            elif isinstance(statement, ast.Assign):
                names.update(target.id for target in statement.targets if isinstance(target, ast.Name))
            elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(statement.name)
        for base in self._bases(node, module):
            names |= self._members(base, module)
        return names

    def _constructor(self, node: ast.ClassDef, module: str) -> set[str]:
        for each in (node, *self._bases(node, module)):
            for statement in each.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                    return _parameters(statement)
        return set()

    def _bases(self, node: ast.ClassDef, module: str) -> list[ast.ClassDef]:
        names = [base.id for base in node.bases if isinstance(base, ast.Name)]
        return [found for name in names if isinstance(found := self._find(f"{module}:{name}"), ast.ClassDef)]


def _definitions(node: ast.AST | None) -> "list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]":
    body = getattr(node, "body", [])
    return [each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]


def _parameters(node: "ast.FunctionDef | ast.AsyncFunctionDef") -> set[str]:
    given = node.args
    return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)} - {"self"}
