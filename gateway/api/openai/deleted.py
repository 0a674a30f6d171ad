"""The answer to a deletion."""

from typing import Literal

import msgspec


class Deleted(msgspec.Struct, frozen=True):
    """The deleted object."""

    id: str
    object: Literal["response", "conversation.deleted", "file"]
    deleted: Literal[True] = True
