"""Orders of operators for shapes: the last one of each group, as an audited record in the store."""

from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.config.base import Record
from gateway.reshaping.change import Widths
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import RESHAPE_ORDERS, Place

#: Seconds after which an order is not begun with any more.
ORDER_SECONDS: Final = 30.0


class ShapeOrder(Record, frozen=True, kw_only=True):
    """An order that a group shall have a shape."""

    id: str
    model: str
    group: str
    shape: Widths
    actor: str
    at: float


def place_in_store(place: str) -> Place:
    """The place of a group's order."""
    return Place(RESHAPE_ORDERS, place)


def orders_of(stored: Mapping[bytes, bytes]) -> dict[str, ShapeOrder]:
    """Decode the orders of the store's hash, by model and group, without those that cannot be read."""
    found = {}
    for place, raw in stored.items():
        try:
            found[place.decode("utf-8", "backslashreplace")] = msgspec.json.decode(raw, type=ShapeOrder)
        except UNREADABLE:
            continue
    return found
