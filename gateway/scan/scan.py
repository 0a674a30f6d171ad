"""Scan a folder: read what may name a model, with each reader for its files, and gather what they find."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from gateway.scan.environment import Environment, env_file, expanded, unquoted, variable_findings
from gateway.scan.files.commands import command_findings, image_commands, logical_lines
from gateway.scan.files.configs import ConfigReader, Node, UnreadableError, is_model_folder, parse_config
from gateway.scan.files.manifests import application_name, is_manifest, package_findings
from gateway.scan.files.node import is_minified, node_findings
from gateway.scan.files.urls import url_findings
from gateway.scan.finding import Finding
from gateway.scan.python.constants import Constants, Module
from gateway.scan.python.parse import NoPythonError, notebook_code, parse_python
from gateway.scan.python.read_python import PythonReader
from gateway.scan.sizing.local_weights import LocalModel, local_model
from gateway.scan.walk import Bounds, Source, Walk

_NODE: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx", ".svelte", ".vue")
_CONFIGS: Final = (".yaml", ".yml", ".json", ".toml")
_MOST_FINDINGS: Final = 20_000
_MOST_LOCAL: Final = 200
_SETTERS: Final = ("ENV ", "ARG ")
_ASSIGNED: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w{0,127})\s*[:?]?=\s*(\S.{0,300})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What was found. `manifests` maps folders (empty: the root) to the application's name in a manifest there."""

    root: Path
    findings: Sequence[Finding]
    skipped: Sequence[tuple[str, str]]
    unlisted: int
    files: int
    manifests: dict[str, str]
    local_models: dict[str, LocalModel]


@dataclass(slots=True)
class _Gathered:
    """Files by their reader, until the environment is known as a whole."""

    modules: list[Module] = field(default_factory=list)
    node: list[Source] = field(default_factory=list)
    configs: list[tuple[Source, list[Node]]] = field(default_factory=list)
    commands: list[Source] = field(default_factory=list)
    variables: list[tuple[str, int, str, str]] = field(default_factory=list)
    found: list[Finding] = field(default_factory=list)
    manifests: dict[str, str] = field(default_factory=dict)
    models: list[Path] = field(default_factory=list)


def scan(
    root: Path,
    bounds: Bounds | None = None,
    leave_out: frozenset[Path] = frozenset(),
    clock: Callable[[], float] = time.monotonic,
) -> Scan:
    """Scan a folder. Nothing of it is run or imported; what cannot be read is told in `skipped`.

    Raises:
        OSError: The folder itself cannot be listed.
    """
    bounds = bounds or Bounds()
    next(root.iterdir(), None)
    walk = Walk(root, bounds, clock, leave_out)
    until = clock() + bounds.seconds
    gathered, environment = _Gathered(), Environment()
    for source in walk.sources():
        try:
            _gather(source, gathered, environment)
        except (UnreadableError, NoPythonError) as error:
            walk.skip(source.file, str(error))
        except RecursionError:
            walk.skip(source.file, "nested too deeply")
    findings: dict[Finding | tuple[object, ...], Finding] = {}
    for file, read in _readers(gathered, environment):
        if clock() > until:
            walk.skip(file, f"this and what follows is not looked into: {bounds.seconds:g} seconds are over")
            break
        try:
            for one in read():
                if len(findings) < _MOST_FINDINGS:
                    findings.setdefault((one.file, one.line, one.kind, one.value, one.engine), one)
        except RecursionError:
            walk.skip(file, "nested too deeply")
    ordered = sorted(findings.values(), key=lambda one: (one.file, one.line, one.kind, one.value))
    local = _local_models(root, walk, gathered.models)
    return Scan(
        root=root,
        findings=ordered,
        skipped=walk.skipped,
        unlisted=walk.unlisted,
        files=walk.files,
        manifests=gathered.manifests,
        local_models=local,
    )


def _gather(source: Source, gathered: _Gathered, environment: Environment) -> None:
    """Read one file as far as that needs no other one."""
    name, suffix = source.path.name.lower(), source.path.suffix.lower()
    if is_manifest(name):
        gathered.found.extend(package_findings(source.file, name, source.text))
        folder = _folder(source.file)
        if not name.endswith((".lock", "-lock.json", "-lock.yaml")):
            named = application_name(name, source.text)
            gathered.manifests[folder] = named or gathered.manifests.get(folder, "")
        if name != "pyproject.toml" and suffix != ".py":
            return
    if suffix == ".py":
        gathered.modules.append(parse_python(source.file, source.text))
    elif suffix == ".ipynb":
        gathered.modules.append(parse_python(source.file, notebook_code(source.text)))
    elif suffix in _NODE:
        if is_minified(source.text):
            raise UnreadableError("lines too long for a source: made by a bundler")
        gathered.node.append(source)
    elif name.startswith(".env") or suffix == ".env":
        for line, variable, value in env_file(source.text):
            environment.learn(variable, value)
            gathered.variables.append((source.file, line, variable, value))
    elif suffix in _CONFIGS:
        documents = parse_config(name, source.text)
        if name == "config.json" and any(map(is_model_folder, documents)):
            gathered.models.append(source.path.parent)
            return
        ConfigReader(source.file, environment).learn_all(documents)
        gathered.configs.append((source, documents))
    elif suffix != ".txt" and suffix != ".lock":
        for line, text in logical_lines(source.text):
            for setter in _SETTERS:
                if text.startswith(setter):
                    _set_by_image(source.file, line, text.removeprefix(setter), gathered, environment)
            if assigned := _ASSIGNED.fullmatch(text):
                environment.learn(assigned[1], expanded(unquoted(assigned[2]), environment.values))
        gathered.commands.append(source)


def _set_by_image(file: str, line: int, text: str, gathered: _Gathered, environment: Environment) -> None:
    """Note what an `ENV` or `ARG` of a Dockerfile sets."""
    for part in text.split() if text.count("=") > 1 else [text]:
        name, equals, value = part.strip().partition("=" if "=" in part else " ")
        if equals and name.isidentifier():
            value = value.strip().strip("\"'")
            environment.learn(name, value)
            gathered.variables.append((file, line, name, value))


def _readers(gathered: _Gathered, environment: Environment) -> Iterator[tuple[str, Callable[[], Iterator[Finding]]]]:
    """Yield each file with what reads its findings, now that all variables and modules are known."""
    yield "", partial(iter, gathered.found)
    for file, line, name, value in gathered.variables:
        yield file, partial(variable_findings, file, line, name, expanded(value, environment.values))
    reader = PythonReader(Constants(gathered.modules, environment), environment)
    for module in gathered.modules:
        yield module.file, partial(reader.findings, module)
    for source in gathered.node:
        yield source.file, partial(node_findings, source.file, source.text, environment)
    for source, documents in gathered.configs:
        yield source.file, partial(ConfigReader(source.file, environment).findings, documents)
    for source in gathered.commands:
        yield source.file, partial(_commands, source, environment)


def _commands(source: Source, environment: Environment) -> Iterator[Finding]:
    for line, text in logical_lines(source.text):
        yield from command_findings(source.file, line, text, environment.values)
        yield from url_findings(source.file, line, text)
    if "FROM" in source.text:
        for line, image, text in image_commands(source.text):
            yield from command_findings(
                source.file, line, text, environment.values, expanded(image, environment.values)
            )


def _local_models(root: Path, walk: Walk, folders: Sequence[Path]) -> dict[str, LocalModel]:
    """Look at the models whose files lie in the folder, by their path below it."""
    found = {}
    for path in (*folders, *(path for path in walk.weights if path.suffix.lower() == ".gguf"))[:_MOST_LOCAL]:
        model = local_model(path)
        if model.problem:
            walk.skip(walk.shown(path), model.problem)
        found[path.relative_to(root).as_posix()] = model
    return found


def _folder(file: str) -> str:
    parent = PurePosixPath(file).parent.as_posix()
    return "" if parent == "." else parent
