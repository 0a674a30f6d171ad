"""The section `files`: storage of uploaded files."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gateway.config.base import Record

_FOLDER: Final = "files"
_LONGEST: Final = 1 << 40


class Files(Record, frozen=True, kw_only=True):
    """Files that clients upload, and those that batches leave: what is known of them is in the store."""

    location: Annotated[
        Annotated[str, Meta(min_length=1, max_length=4096)] | None,
        Meta(
            description="Where their content lies: a folder, relative to this file's, that all workers share, or an "
            "address such as `s3://bucket/prefix` (needs the extra `s3`); unset: `files` in `state`."
        ),
    ] = None
    max_file_bytes: Annotated[int, Meta(ge=1024, le=8 << 30, description="Longest file that is taken, in bytes.")] = (
        100_000_000
    )
    max_tenant_bytes: Annotated[
        int, Meta(ge=1024, le=_LONGEST, description="Most bytes of all files that a tenant has uploaded.")
    ] = 10_000_000_000
    max_tenant_files: Annotated[
        int, Meta(ge=1, le=100_000, description="Most files that a tenant has, those that batches leave included.")
    ] = 10_000
    keep_days: Annotated[
        float, Meta(gt=0, le=3650, description="Days after which a file is removed that has no end of its own.")
    ] = 30.0

    @property
    def remote(self) -> bool:
        """Whether the content is stored elsewhere than in a local folder."""
        return self.location is not None and "://" in self.location


def file_problems(files: Files, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule."""
    if files.location is not None and files.location.startswith("s3://") and find_spec("s3fs") is None:
        yield f"{where}.location", "needs s3fs, which is not installed: pip install 'penstock[s3]'"
    if files.max_file_bytes > files.max_tenant_bytes:
        yield f"{where}.max_file_bytes", "must not be more than max_tenant_bytes"


def with_absolute_location(files: Files, folder: Path) -> Files:
    """Give the settings with a local location relative to `folder` made absolute."""
    if files.location is None or files.remote:
        return files
    return msgspec.structs.replace(files, location=str((folder / files.location).resolve()))


def location_of(files: Files, state: Path) -> str:
    """The local folder or remote URL of the content; `state` is the state directory."""
    return str(state / _FOLDER) if files.location is None else files.location
