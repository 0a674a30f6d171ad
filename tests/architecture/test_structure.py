"""The shape of the code base itself. Who may import whom is import-linter's part (pyproject.toml)."""

import ast
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway", "loadtest", "observability", "protos", "replicas", "routing", "safety")
SOURCES = sorted(
    path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if not path.name.endswith("_pb2.py")
)
MAX_LINES = 450
#: Where output for people is written.
PRINTING = ("gateway/cli", "loadtest", "observability/terminal.py", "replicas/cli")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_packages_are_found() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(PACKAGES)


# One test for all files, each read once: a test for each of them took longer to report than to run.
def test_a_file_can_be_read_at_one_sitting() -> None:
    files = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py"))]
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: count for name, count in lines.items() if count >= MAX_LINES} == {}


def test_a_module_says_what_it_is_for() -> None:
    assert [name for name, tree in trees() if not ast.get_docstring(tree)] == []


def test_only_commands_and_benchmarks_print() -> None:
    assert [
        f"{name}:{node.lineno}"
        for name, tree in trees()
        if not any((ROOT / name).is_relative_to(ROOT / part) for part in PRINTING)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ] == []


@cache
def trees() -> list[tuple[str, ast.Module]]:
    return [(name_of(path), ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES]


def test_tests_are_no_packages() -> None:
    # With --import-mode=importlib an __init__.py would only make two names for one module.
    assert list((ROOT / "tests").rglob("__init__.py")) == []


#: A module -> what must not come with it.
LIGHT = {
    "gateway.cli.main": ("grpc", "jinja2", "matplotlib", "redis", "starlette", "tokenizers", "granian", "msgspec"),
    "gateway.config.settings": ("grpc", "jinja2", "redis", "starlette", "tokenizers", "tiktoken", "granian"),
    "gateway.cli.keys_command": ("grpc", "jinja2", "starlette", "tokenizers", "tiktoken", "granian", "matplotlib"),
    "gateway.cli.providers_command": ("grpc", "jinja2", "starlette", "tokenizers", "tiktoken", "granian", "matplotlib"),
    "gateway.cli.replicas_command": ("grpc", "jinja2", "starlette", "tokenizers", "tiktoken", "granian", "matplotlib"),
    "loadtest.cli.bench_command": ("grpc", "matplotlib", "loadtest.load.benchmark_plots"),
    "gateway.cli.route.route_command": (
        "grpc",
        "redis",
        "jinja2",
        "starlette",
        "tokenizers",
        "granian",
        "matplotlib",
        "httpx",
    ),
    "gateway.server.app": (
        *("replicas", "loadtest", "matplotlib", "rich", "httpx", "openai", "mistral_common", "granian"),
        *("opentelemetry.exporter", "zstandard", "duckdb"),
    ),
    "gateway.server.gateway": ("dns", "opentelemetry.exporter", "zstandard", "duckdb"),
    "gateway.cli.top.top_command": ("grpc", "redis", "starlette", "granian", "rich", "tokenizers"),
    "gateway.server.supervisor": (
        "grpc",
        "jinja2",
        "starlette.routing",
        "tokenizers",
        "tiktoken",
        "dns",
        "gateway.server.app",
    ),
    "replicas.model": ("grpc", "google.protobuf", "gateway"),
    "replicas.replica_server": ("gateway", "starlette", "jinja2", "redis", "replicas.engines.simulated"),
    "routing.policies": ("grpc", "google.protobuf"),
    "protos.types": ("grpc", "google.protobuf"),
    "protos.errors": ("grpc", "google.protobuf", "msgspec"),
}


@pytest.mark.parametrize("module", sorted(LIGHT))
def test_an_import_brings_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*(name for name in {LIGHT[module]!r} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_ships_its_types(package: str) -> None:
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    assert (ROOT / package / "py.typed").is_file()
    assert "py.typed" in shipped["*"]
