"""Reading of the store's records of shapes: all that a round needs, and the controller's status."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast

import msgspec

from gateway.reshaping.change import CHANGES, HISTORY, STATUS, TAKEN, TOTALS, Change, Event, Told, Totals, place_of
from gateway.reshaping.shape_orders import ORDER_SECONDS, ShapeOrder, orders_of
from gateway.scaling.status import FRESH_SECONDS
from gateway.store.lua_script import Script
from gateway.store.unreadable import UNREADABLE, readable
from gateway.tenancy.tenants.transactions import RESHAPE_ORDERS, Place, Storage, read

_ENTRIES: Final = Script.load("gateway.scaling", "lua/entries.lua")
_EVENT: Final = msgspec.json.Decoder(Event)
T = TypeVar("T")


class ShapeRecords(msgspec.Struct, frozen=True, kw_only=True):
    """All by model and group but `totals`, which are by model, and the store's time."""

    now: float
    orders: Mapping[str, ShapeOrder]
    changes: Mapping[str, Change]
    taken: Mapping[str, str]
    totals: Mapping[str, Totals]
    told: Told | None

    @property
    def controller(self) -> str:
        """Who acts; empty: nobody does now."""
        told = self.told
        return told.controller if told is not None and self.now - told.at <= FRESH_SECONDS else ""

    def waits(self, order: ShapeOrder) -> bool:
        """Whether an order was not seen to yet, and may still be begun with."""
        taken = self.taken.get(place_of(order.model, order.group))
        return taken != order.id and self.now - order.at <= ORDER_SECONDS


async def read_shape_records(storage: Storage) -> ShapeRecords:
    """Read all records. A change that cannot be read is none: its replicas say what they were ordered.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    (now, (told,)), orders, changes, taken, totals = await asyncio.gather(
        read(storage, [Place(STATUS)]),
        storage.hgetall(RESHAPE_ORDERS),
        storage.hgetall(CHANGES),
        storage.hgetall(TAKEN),
        storage.hgetall(TOTALS),
    )
    return ShapeRecords(
        now=now,
        orders=orders_of(orders),
        changes=_decoded(changes, lambda raw: msgspec.json.decode(raw, type=Change)),
        taken=_decoded(taken, bytes.decode),
        totals=_decoded(totals, lambda raw: msgspec.json.decode(raw, type=Totals)),
        told=next(iter(readable([told], lambda raw: msgspec.json.decode(raw, type=Told))), None) if told else None,
    )


async def read_shape_events(storage: Storage, most: int) -> list[Event]:
    """The newest events, the newest last; those of another program version are left out.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    found = cast("list[bytes]", await storage.run(_ENTRIES, [HISTORY], [str(most)]))
    return readable(reversed(found), _EVENT.decode)


def _decoded(stored: Mapping[bytes, bytes], decode: Callable[[bytes], T]) -> dict[str, T]:
    found = {}
    for place, raw in stored.items():
        try:
            found[place.decode("utf-8", "backslashreplace")] = decode(raw)
        except UNREADABLE:
            continue
    return found
