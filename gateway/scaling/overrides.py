"""What operators have set about scaling: pauses, and pools' sizes, as audited records in the store."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import SCALING, Place, Storage


class Override(Record, frozen=True, kw_only=True):
    """What an operator has set about one model."""

    paused: Annotated[bool, Meta(description="Nothing is started or stopped.")] = False
    pinned: Annotated[Mapping[str, int], Meta(description="Replicas by pool, in place of what would be wanted.")] = {}


#: Nothing is set.
NO_OVERRIDE: Final = Override()


def place_of(model: str) -> Place:
    """The place of a model's record."""
    return Place(SCALING, model)


def override_of(raw: bytes) -> Override:
    """Decode a record; empty is none. One that cannot be read is a pause: nobody knows what an operator has set."""
    if not raw:
        return NO_OVERRIDE
    found = _decoded(raw)
    return _PAUSED if found is None else found


class StoredOverrides(msgspec.Struct, frozen=True):
    """What is set, by model, and a sentence for each record that cannot be read."""

    found: dict[str, Override]
    problems: Sequence[str] = ()


async def stored_overrides(storage: Storage) -> StoredOverrides:
    """Read what is set.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    stored = {model.decode("utf-8", "backslashreplace"): raw for model, raw in (await storage.hgetall(SCALING)).items()}
    problems = [
        f"what is set of {model} cannot be read ({SCALING} in the store): it is paused until it is resumed"
        for model, raw in stored.items()
        if raw and _decoded(raw) is None
    ]
    return StoredOverrides({model: override_of(raw) for model, raw in stored.items()}, problems)


_PAUSED: Final = Override(paused=True)


def _decoded(raw: bytes) -> Override | None:
    try:
        return msgspec.json.decode(raw, type=Override)
    except UNREADABLE:
        return None
