"""No import cycle between files or packages, imports inside functions and for type checkers included; small folders."""

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOPS = ("gateway", "loadtest", "observability", "protos", "replicas", "routing", "safety")
#: Files directly in one folder, at most.
MOST_FILES = 25


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(path): path for top in TOPS for path in (ROOT / top).rglob("*.py") if "_pb2" not in path.name}


def imports_of(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None and not node.level, "imports are absolute"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in FILES else node.module)
    return found & FILES.keys()


IMPORTS = {module: imports_of(ast.parse(path.read_text(encoding="utf-8"))) - {module} for module, path in FILES.items()}


def package_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_cycle_is_found() -> None:
    assert set(cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()})) == {"a", "b", "c"}
    assert imports_of(ast.parse("def f():\n    from routing.policies import auto")) == {"routing.policies.auto"}


def test_files_import_each_other_in_one_direction() -> None:
    assert cycle_in(IMPORTS) == []


def test_packages_import_each_other_in_one_direction() -> None:
    packages: dict[str, set[str]] = {}
    for module, imported in IMPORTS.items():
        packages.setdefault(package_of(module), set()).update(map(package_of, imported))
    assert cycle_in({package: imported - {package} for package, imported in packages.items()}) == []


@pytest.mark.parametrize("top", TOPS)
def test_a_folder_can_be_taken_in_at_a_glance(top: str) -> None:
    counts = Counter(path.parent for path in FILES.values() if path.relative_to(ROOT).parts[0] == top)
    assert {str(folder.relative_to(ROOT)): count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_the_gateway_has_packages_only() -> None:
    assert {path.name for path in (ROOT / "gateway").glob("*.py")} <= {"__init__.py", "__main__.py"}
