"""What is kept for a tenant, as types for the document: responses, conversations, files and batches."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is not named may still come."""


class Deleted(_Answer, frozen=True, kw_only=True):
    """Something is there no more."""

    id: str
    object: str
    deleted: Literal[True]


class PageQuery(_Answer, frozen=True, kw_only=True):
    """Which part of a list: `after` is the id that it begins behind."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: str = ""


class ResponseError(_Answer, frozen=True, kw_only=True):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(_Answer, frozen=True, kw_only=True):
    """Why a response ends early."""

    reason: str


class ResponseUsage(_Answer, frozen=True, kw_only=True):
    """Tokens."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens_details: dict[str, int]


class Response(_Answer, frozen=True, kw_only=True):
    """A response; `output` has items, which are of the kinds that their `type` names."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    model: str
    output: list[dict[str, Any]]
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    usage: ResponseUsage | None = None
    previous_response_id: str | None = None
    metadata: dict[str, str] | None = None


class ResponseEvent(_Answer, frozen=True, kw_only=True):
    """The data of an event of a streamed response; what else is in it goes by its type."""

    type: str
    sequence_number: int


class ResponseQuery(_Answer, frozen=True, kw_only=True):
    """How a response is shown. `include` and `include[]` are passed over: all that is kept is shown."""

    stream: Literal["true", "false"] = "false"
    starting_after: Annotated[int, Meta(ge=0)] | None = None


class InputTokens(_Answer, frozen=True, kw_only=True):
    """How many tokens a request's prompt would have."""

    object: Literal["response.input_tokens"]
    input_tokens: int


class Item(_Answer, frozen=True, kw_only=True):
    """A message, a call, what a tool answered, or a thought."""

    id: str
    type: str


class Items(_Answer, frozen=True, kw_only=True):
    """A page of them."""

    object: Literal["list"]
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


class NewConversation(_Answer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation's first items, and what its client attaches to it."""

    items: Annotated[list[dict[str, Any]], Meta(max_length=20)] | None = None
    metadata: dict[str, str] | None = None


class UpdatedConversation(_Answer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What its client attaches to it from now on."""

    metadata: dict[str, str] | None


class NewItems(_Answer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Items for a conversation's end."""

    items: Annotated[list[dict[str, Any]], Meta(max_length=20)]


class Conversation(_Answer, frozen=True, kw_only=True):
    """What is known of a conversation."""

    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, str]


class FileForm(_Answer, frozen=True, kw_only=True):
    """A file and what it is for."""

    file: bytes
    purpose: Literal["batch", "user_data"]


class FileQuery(_Answer, frozen=True, kw_only=True):
    """Which files."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    order: Literal["asc", "desc"] = "desc"
    after: str = ""
    purpose: Literal["batch", "batch_output", "user_data"] | None = None


class File(_Answer, frozen=True, kw_only=True):
    """What is known of a file."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: Literal["batch", "batch_output", "user_data"]


class Files(_Answer, frozen=True, kw_only=True):
    """A page of them."""

    object: Literal["list"]
    data: list[File]
    first_id: str | None
    last_id: str | None
    has_more: bool


class BatchCounts(_Answer, frozen=True, kw_only=True):
    """Of its requests."""

    total: int
    completed: int
    failed: int


class BatchQuery(_Answer, frozen=True, kw_only=True):
    """Which batches."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    after: str = ""


class Batch(_Answer, frozen=True, kw_only=True):
    """What is known of a batch."""

    id: str
    object: Literal["batch"]
    endpoint: str
    input_file_id: str
    completion_window: str
    status: Literal[
        "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
    ]
    created_at: int
    request_counts: BatchCounts
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: dict[str, Any] | None = None
    metadata: dict[str, str] | None = None


class Batches(_Answer, frozen=True, kw_only=True):
    """A page of them."""

    object: Literal["list"]
    data: list[Batch]
    first_id: str | None
    last_id: str | None
    has_more: bool
