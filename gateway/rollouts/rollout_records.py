"""Reading of the store's records of rollouts: all that a round needs, and the controller's status."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar, cast

import msgspec

from gateway.rollouts.orders import Order
from gateway.scaling.status import FRESH_SECONDS
from gateway.store.lua_script import Script
from gateway.store.unreadable import UNREADABLE, readable
from gateway.tenancy.tenants.transactions import ROLLOUT_ORDERS, Place, Storage, read
from routing.rollouts.rollout import DECLARED, HISTORY, ROLLOUTS, STATUS, TOTALS, Event, Rollout, Told, Totals
from routing.rollouts.split import SPLITS, Split

#: Entries of the stream of events that it keeps, each of some hundred bytes.
MOST_STORED: Final = 4000

_ENTRIES: Final = Script.load("gateway.scaling", "lua/entries.lua")
_EVENT: Final = msgspec.json.Decoder(Event)

T = TypeVar("T")


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """All by model, and the store's time.

    `unreadable` is what this program version cannot read of a model, by its key in the store: an order, a rollout or a
    split. `foreign`: it cannot read the controller's status, which is another version's then.
    """

    now: float
    orders: Mapping[str, Order]
    rollouts: Mapping[str, Rollout]
    splits: Mapping[str, Split]
    taken: Mapping[str, str]
    totals: Mapping[str, Totals]
    told: Told | None
    unreadable: Mapping[str, Mapping[str, bytes]]
    foreign: bool

    @property
    def controller(self) -> str:
        """Who acts; empty: nobody does now."""
        told = self.told
        return told.controller if told is not None and self.now - told.at <= FRESH_SECONDS else ""


async def read_records(storage: Storage) -> Records:
    """Read all records.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    (now, (told,)), orders, rollouts, splits, taken, totals = await asyncio.gather(
        read(storage, [Place(STATUS)]),
        storage.hgetall(ROLLOUT_ORDERS),
        storage.hgetall(ROLLOUTS),
        storage.hgetall(SPLITS),
        storage.hgetall(DECLARED),
        storage.hgetall(TOTALS),
    )
    status = next(iter(readable([told], lambda raw: msgspec.json.decode(raw, type=Told))), None) if told else None
    found = Records(
        now=now,
        orders=_decoded(orders, lambda raw: msgspec.json.decode(raw, type=Order)),
        rollouts=_decoded(rollouts, lambda raw: msgspec.json.decode(raw, type=Rollout)),
        splits=_decoded(splits, lambda raw: msgspec.json.decode(raw, type=Split)),
        taken=_decoded(taken, bytes.decode),
        totals=_decoded(totals, lambda raw: msgspec.json.decode(raw, type=Totals)),
        told=status,
        unreadable={},
        foreign=bool(told) and status is None,
    )
    unreadable: dict[str, dict[str, bytes]] = {}
    kinds: Sequence[tuple[str, Mapping[bytes, bytes], Mapping[str, object]]] = (
        (ROLLOUT_ORDERS, orders, found.orders),
        (ROLLOUTS, rollouts, found.rollouts),
        (SPLITS, splits, found.splits),
    )
    for key, stored, decoded in kinds:
        for model, raw in stored.items():
            if _name(model) not in decoded:
                unreadable.setdefault(_name(model), {})[key] = raw
    return msgspec.structs.replace(found, unreadable=unreadable)


async def read_events(storage: Storage, most: int) -> list[Event]:
    """The newest events of all rollouts, the newest last; those of another program version are left out.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    found = cast("list[bytes]", await storage.run(_ENTRIES, [HISTORY], [str(most)]))
    return readable(reversed(found), _EVENT.decode)


def _decoded(stored: Mapping[bytes, bytes], decode: Callable[[bytes], T]) -> dict[str, T]:
    found = {}
    for model, raw in stored.items():
        try:
            found[_name(model)] = decode(raw)
        except UNREADABLE:
            continue
    return found


def _name(model: bytes) -> str:
    return model.decode("utf-8", "backslashreplace")
