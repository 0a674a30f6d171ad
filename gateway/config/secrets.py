"""Sources of secrets. The file itself holds none, so that it can be shown and archived."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.tenants import END, NAME

S = TypeVar("S", bound="SecretSource")


class SecretSource(Record, frozen=True, kw_only=True):
    """Where a secret is; exactly one field is given."""

    env: Annotated[
        Annotated[str, Meta(pattern=rf"^[A-Za-z_][A-Za-z0-9_]{{0,127}}{END}")] | None,
        Meta(description="Environment variable of the gateway that has it."),
    ] = None
    file: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="File that has it, relative to this file's folder; read anew when it changes."),
    ] = None

    @property
    def path(self) -> Path | None:
        """The file's path, absolute in a loaded configuration, or None."""
        return None if self.file is None else Path(self.file)

    @property
    def shown(self) -> str:
        """The source as a text for messages and logs."""
        fields = (f"{name}: {value}" for name in self.__struct_fields__ if (value := getattr(self, name)) is not None)
        return f"{{{', '.join(fields)}}}"


class ApiKeySource(SecretSource, frozen=True, kw_only=True):
    """Where the key of a provider is; exactly one field is given."""

    stored: Annotated[
        Annotated[str, Meta(pattern=NAME)] | None,
        Meta(description="Name under which `penstock providers set NAME` has put it in the store."),
    ] = None


def source_problems(source: SecretSource | None, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule of a source."""
    if source is None:
        return
    fields = source.__struct_fields__
    if sum(getattr(source, name) is not None for name in fields) != 1:
        yield where, f"expected exactly one of {', '.join(sorted(fields))}"


def with_absolute_file(source: S | None, folder: Path) -> S | None:
    """Give the source with its file made absolute under `folder`; symbolic links stay, as some renew files by them."""
    if source is None or source.file is None:
        return source
    return msgspec.structs.replace(source, file=os.path.abspath(folder / source.file))
