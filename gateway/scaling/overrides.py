"""What operators have set about scaling: pauses, and pools' sizes, as audited records in the store."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import SCALING, Place, Storage
from protos.errors import StoreUnavailable


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
    """Decode a record; empty is none.

    Raises:
        StoreUnavailable: It cannot be read.
    """
    if not raw:
        return NO_OVERRIDE
    try:
        return msgspec.json.decode(raw, type=Override)
    except UNREADABLE as error:
        raise StoreUnavailable("The gateway's store holds a scaling record that cannot be read.") from error


async def read_overrides(storage: Storage) -> dict[str, Override]:
    """What is set, by model.

    Raises:
        StoreUnavailable: The store did not answer, or a record cannot be read.
    """
    return {model.decode(): override_of(raw) for model, raw in (await storage.hgetall(SCALING)).items()}
