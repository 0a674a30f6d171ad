"""File records: as the store keeps them, and as the API shows them."""

import re
import secrets
from typing import Any, Final, Literal

import msgspec

from protos.errors import InvalidRequest

#: `batch_output` is for results of batches; clients cannot upload it.
Purpose = Literal["batch", "batch_output", "user_data"]
PURPOSES: Final[tuple[Purpose, ...]] = ("batch", "batch_output", "user_data")
#: The purposes of uploads.
UPLOADED: Final[tuple[Purpose, ...]] = ("batch", "user_data")
_ID: Final = re.compile(r"file-[0-9a-f]{24}")


class FileRecord(msgspec.Struct, frozen=True):
    """A file. `bytes` is its length; times are seconds since 1970, by the store's clock."""

    id: str
    bytes: int
    created_at: float
    expires_at: float
    filename: str
    purpose: Purpose
    #: Whether its expiry was asked for; the default expiry is not shown to clients.
    ends: bool = False

    def shown(self) -> dict[str, Any]:
        """Make the API's file object."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.bytes,
            "created_at": int(self.created_at),
            "expires_at": int(self.expires_at) if self.ends else None,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }


class ExpiresAfter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lifetime of a file from its creation on."""

    seconds: int
    anchor: Literal["created_at"] = "created_at"


def checked_expiry(seconds: int, param: str) -> int:
    """Check the API's bounds of a file's lifetime. Raises InvalidRequest."""
    if not 3600 <= seconds <= 2_592_000:
        raise InvalidRequest(
            f"Invalid value for '{param}': expected an integer from 3600 to 2592000 (30 days).", param=param
        )
    return seconds


def new_file_id() -> str:
    """Make an id that nobody can guess."""
    return "file-" + secrets.token_hex(12)


def is_file_id(text: str) -> bool:
    """Whether a text has the form of a file id: no other text is looked up, or becomes part of a path."""
    return _ID.fullmatch(text) is not None
