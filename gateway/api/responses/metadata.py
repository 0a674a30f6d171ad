"""Metadata that clients attach to responses and conversations: short texts by name."""

from typing import Annotated

from msgspec import Meta

Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)
]
