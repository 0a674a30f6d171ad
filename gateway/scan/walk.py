"""The files of a folder, within bounds; what is not read is told with the reason."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.scan.files.manifests import LOCKS
from observability.printable import printable

#: Folders of others' code, of builds and of tools.
_LEFT_OUT: Final = frozenset(
    {
        *("node_modules", "site-packages", "__pycache__", "venv", "env", "build", "dist", "target", "vendor"),
        *(".git", ".hg", ".svn", ".venv", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".next"),
        *(".nuxt", ".svelte-kit", ".turbo", ".cache", ".idea", ".vscode", ".terraform", ".penstock", ".eggs"),
    }
)
_SUFFIXES: Final = frozenset(
    {
        *(".py", ".ipynb", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx", ".svelte", ".vue"),
        *(".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".sh", ".bash", ".env", ".service", ".mk"),
        *(".txt", ".lock", ".dockerfile"),
    }
)
_NAMES: Final = ("dockerfile", "containerfile", "makefile", "procfile", "pipfile", "justfile", ".env", "modelfile")
#: Suffixes of weights: never read as text, but told to whoever looks for models of the folder itself.
WEIGHT_SUFFIXES: Final = (".safetensors", ".gguf")
#: Vocabularies and the like, which are large and name no model.
_DATA: Final = ("tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "special_tokens_map.json")
_MOST_SKIPPED: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much is read at most."""

    files: int = 20_000
    entries: int = 500_000
    file_bytes: int = 1 << 20
    lock_bytes: int = 8 << 20
    total_bytes: int = 64 << 20
    depth: int = 40
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text; `file` is its path below the scanned folder, fit to be shown."""

    file: str
    path: Path
    text: str


@dataclass(slots=True)
class Walk:
    """One pass over a folder. `skipped` has what was not read as (file, reason); `weights` the files of weights."""

    root: Path
    bounds: Bounds
    clock: Callable[[], float]
    leave_out: frozenset[Path] = frozenset()
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unlisted: int = 0
    weights: list[Path] = field(default_factory=list)
    files: int = 0
    bytes: int = 0

    def skip(self, file: str, why: str) -> None:
        """Note that a file is not read; of very many, the rest is only counted."""
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.append((file, why))
        else:
            self.unlisted += 1

    def sources(self) -> Iterator[Source]:
        """Read what may name a model, by name from folder to folder; each path once, whatever links there are."""
        until, entries = self.clock() + self.bounds.seconds, 0
        folders: list[tuple[Path, int]] = [(self.root, 0)]
        while folders:
            folder, depth = folders.pop()
            below: list[tuple[Path, int]] = []
            for path in self._listed(folder):
                entries += 1
                if over := self._over(entries, until):
                    self.skip(self.shown(path), f"this and what follows is not read: {over}")
                    return
                kind = self._kind(path)
                if kind == "folder" and path.name not in _LEFT_OUT:
                    if depth >= self.bounds.depth:
                        self.skip(self.shown(path), f"deeper than {self.bounds.depth} folders")
                    else:
                        below.append((path, depth + 1))
                elif kind == "file" and (source := self._read(path)) is not None:
                    yield source
            folders.extend(reversed(below))

    def shown(self, path: Path) -> str:
        """Format a path below the root for people, whatever bytes its name has."""
        relative = os.fsencode(path.relative_to(self.root)).decode("utf-8", "backslashreplace")
        return printable(relative)

    def _listed(self, folder: Path) -> list[Path]:
        try:
            return sorted(folder / name for name in os.listdir(folder))
        except OSError as error:
            self.skip(self.shown(folder), error.strerror or str(error))
            return []

    def _over(self, entries: int, until: float) -> str:
        if self.clock() > until:
            return f"{self.bounds.seconds:g} seconds are over"
        if entries > self.bounds.entries:
            return f"more than {self.bounds.entries} entries"
        if self.files >= self.bounds.files:
            return f"more than {self.bounds.files} files"
        return f"more than {self.bounds.total_bytes} bytes" if self.bytes >= self.bounds.total_bytes else ""

    def _kind(self, path: Path) -> str:
        """Tell files from folders. A link counts as the file that it leads to, if that is in the folder as well."""
        try:
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                mode = path.stat().st_mode
                if not stat.S_ISREG(mode) or not path.resolve().is_relative_to(self.root.resolve()):
                    return "elsewhere"
        except (OSError, RuntimeError):
            if _is_wanted(path):
                self.skip(self.shown(path), "a link that leads nowhere")
            return "nothing"
        return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "special"

    def _read(self, path: Path) -> Source | None:
        if path.name.lower().endswith(WEIGHT_SUFFIXES):
            self.weights.append(path)
            return None
        if not _is_wanted(path) or path.resolve() in self.leave_out:
            return None
        most = self.bounds.lock_bytes if path.name.lower() in LOCKS else self.bounds.file_bytes
        try:
            # A pipe that has taken the file's place meanwhile must not hold the scan up.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                content = file.read(most + 1)
        except OSError as error:
            self.skip(self.shown(path), error.strerror or str(error))
            return None
        self.files += 1
        self.bytes += len(content)
        if len(content) > most:
            self.skip(self.shown(path), f"larger than {most >> 20 or 1} MiB")
            return None
        if b"\0" in content:
            self.skip(self.shown(path), "not text")
            return None
        try:
            return Source(self.shown(path), path, content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            self.skip(self.shown(path), f"not UTF-8 text at byte {error.start}")
            return None


def _is_wanted(path: Path) -> bool:
    name = path.name.lower()
    if name in _DATA or name.endswith((".min.js", ".index.json", ".d.ts")):
        return False
    return path.suffix.lower() in _SUFFIXES or name.startswith(_NAMES)
