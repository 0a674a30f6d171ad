"""Files and folders that a configuration refers to, and where pods have them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Where the volume with models is mounted in gateways, and the Secret with all other files.
MODELS: Final = "/models"
SECRET: Final = "/etc/penstock-files"
STATE: Final = "/var/lib/penstock"
#: Fields whose folders the gateway itself writes to.
_STATE_FIELDS: Final = (("files", "location"), ("observability", "journal", "folder"))

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FileUse:
    """A file or folder that a field names: `source` on this machine, `target` in pods."""

    field: Steps
    source: Path
    target: str

    @property
    def shown(self) -> str:
        """The field as messages name it."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.field).removeprefix(".")


def file_uses(raw: object, loaded: object, folder: Path) -> list[FileUse]:
    """Find the relative paths of a configuration: loading it has made them absolute, and nothing else.

    `raw` is the file as it is written, `loaded` the loaded configuration in plain values; `folder` has the file.
    """
    names: dict[str, Path] = {}
    uses = []
    for field, source in _changed(raw, loaded, folder, ()):
        target = _target(field, source)
        if target.startswith((MODELS, SECRET)):
            number, base = 2, target
            while names.setdefault(target, source) != source:
                target, number = f"{base}-{number}", number + 1
        uses.append(FileUse(field, source, target))
    return uses


def _changed(raw: object, loaded: object, folder: Path, field: Steps) -> Iterator[tuple[Steps, Path]]:
    if isinstance(raw, Mapping) and isinstance(loaded, Mapping):
        for key, value in raw.items():
            if key in loaded:
                yield from _changed(value, loaded[key], folder, (*field, key))
    elif isinstance(raw, list) and isinstance(loaded, Sequence) and not isinstance(loaded, str):
        for index, (value, made) in enumerate(zip(raw, loaded, strict=False)):
            yield from _changed(value, made, folder, (*field, index))
    elif isinstance(raw, str) and isinstance(loaded, str) and raw != loaded and os.path.isabs(loaded):
        path = folder / raw
        if loaded in (os.path.abspath(path), str(path.resolve())):
            yield field, Path(loaded)


def _target(field: Steps, source: Path) -> str:
    if field in _STATE_FIELDS:
        return f"{STATE}/{source.name}"
    if field[-1] == "tokenizer" or source.is_dir():
        return f"{MODELS}/{source.name}"
    # Keys of a Secret have no other characters.
    name = "".join(each if (each.isalnum() and each.isascii()) or each in "-_." else "-" for each in source.name)
    return f"{SECRET}/{name}"


def replaced(raw: object, uses: Sequence[FileUse]) -> object:
    """A copy of the configuration with the paths that pods have."""
    targets = {use.field: use.target for use in uses}
    return _replaced(raw, targets, ())


def _replaced(raw: object, targets: Mapping[Steps, str], field: Steps) -> object:
    if field in targets:
        return targets[field]
    if isinstance(raw, Mapping):
        return {key: _replaced(value, targets, (*field, key)) for key, value in raw.items()}
    if isinstance(raw, list):
        return [_replaced(value, targets, (*field, index)) for index, value in enumerate(raw)]
    return raw
