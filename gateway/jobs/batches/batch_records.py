"""Records of batches: as the store keeps them, as the API shows them, and their tasks."""

import secrets
from typing import Any, Final

import msgspec

WINDOW_SECONDS: Final = 86_400.0
OVER: Final = ("completed", "failed", "expired", "cancelled")
_TIMES: Final = (
    *("in_progress_at", "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at"),
)
_TOKENS: Final = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")


class BatchRequest(msgspec.Struct, frozen=True):
    """The constant part of a batch; `key_id` is the key that created it, `keep_seconds` the lifetime of its results."""

    input_file_id: str
    endpoint: str
    key_id: str
    metadata: dict[str, str] | None = None
    keep_seconds: int | None = None


class LineProblem(msgspec.Struct, frozen=True):
    """A problem of a line, numbered from 1, or of the whole file."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class Task(msgspec.Struct, frozen=True, array_like=True):
    """A run of lines of the input: the range of its bytes, the number of its first line, and its count of requests."""

    offset: int
    length: int
    first_line: int
    requests: int


class Counted(msgspec.Struct):
    """Counts of requests by result, and the tokens that they used."""

    completed: int = 0
    failed: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


class Batch(msgspec.Struct, frozen=True):
    """A snapshot of a batch; `fields` are those of its hash in the store."""

    id: str
    request: BatchRequest
    fields: dict[str, str]

    @property
    def status(self) -> str:
        """The API's status."""
        return self.fields["status"]

    @property
    def outcome(self) -> str:
        """The status that it is about to end with; empty while it goes on."""
        return self.fields.get("outcome", "")

    def number(self, name: str) -> int:
        """Return a count or a time in whole seconds; 0 where there is none."""
        return int(float(self.fields.get(name, 0)))

    def shown(self) -> dict[str, Any]:
        """Make the API's batch object."""
        request, fields = self.request, self.fields
        errors = fields.get("errors")
        counts = {"total": self.number("total"), "completed": self.number("completed"), "failed": self.number("failed")}
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": request.endpoint,
            "model": fields.get("model") or None,
            "errors": None if errors is None else {"object": "list", "data": msgspec.json.decode(errors)},
            "input_file_id": request.input_file_id,
            "completion_window": "24h",
            "status": self.status,
            "output_file_id": fields.get("output_file_id") or None,
            "error_file_id": fields.get("error_file_id") or None,
            "created_at": self.number("created_at"),
            "expires_at": self.number("expires_at"),
            **{name: self.number(name) or None for name in _TIMES},
            "request_counts": counts,
            "usage": self._usage(),
            "metadata": request.metadata,
        }

    def _usage(self) -> dict[str, Any]:
        given, cached, made, thought = (self.number(name) for name in _TOKENS)
        return {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": thought},
            "total_tokens": given + made,
        }


def new_batch_id() -> str:
    """Make an id that nobody can guess."""
    return "batch_" + secrets.token_hex(12)


def is_batch_id(text: str) -> bool:
    """Whether a text has the form of a batch id."""
    return text.startswith("batch_") and text[6:].isalnum() and text.isascii() and len(text) == 30
