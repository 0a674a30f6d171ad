"""Types of query strings and forms, for the document."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.jobs.files.file_records import Purpose


class ReadyQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which models must have a replica: `all`, or one of them."""

    models: Literal["all", "any"] = "all"


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list: `after` is the id before its first item."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: str = ""


class ResponseQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How a response is shown. `include` and `include[]` are ignored: everything stored is shown."""

    stream: Literal["true", "false"] = "false"
    starting_after: Annotated[int, Meta(ge=0)] | None = None


class FileForm(msgspec.Struct, frozen=True, kw_only=True):
    """A file and its purpose."""

    file: bytes
    purpose: Literal["batch", "user_data"]


class FileQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of files."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    order: Literal["asc", "desc"] = "desc"
    after: str = ""
    purpose: Purpose | None = None


class BatchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of batches."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    after: str = ""
