"""What requests have beside a JSON body, as types for the document: queries and forms."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.jobs.files.file_records import Purpose


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list: `after` is the id that it begins behind."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: str = ""


class ResponseQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How a response is shown. `include` and `include[]` are passed over: all that is kept is shown."""

    stream: Literal["true", "false"] = "false"
    starting_after: Annotated[int, Meta(ge=0)] | None = None


class FileForm(msgspec.Struct, frozen=True, kw_only=True):
    """A file and what it is for."""

    file: bytes
    purpose: Literal["batch", "user_data"]


class FileQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which files."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    order: Literal["asc", "desc"] = "desc"
    after: str = ""
    purpose: Purpose | None = None


class BatchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which batches."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    after: str = ""
