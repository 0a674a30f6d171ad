"""What is answered once something has been deleted."""

from typing import Literal

import msgspec


class Deleted(msgspec.Struct, frozen=True):
    """Something is there no more."""

    id: str
    object: Literal["response", "conversation.deleted", "file"]
    deleted: Literal[True] = True
