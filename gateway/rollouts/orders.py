"""Orders of rollouts, by operators and the file: one a model, as an audited record in the store.

An order is what shall be, the rollout (`rollout.py`) is how far it is. The controller takes an order by writing a
rollout with the order's id; what an operator wants of it later changes the order's `wish`.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.models.settings import Model
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import ROLLOUT_ORDERS, Place
from routing.rollouts.rollout import ENDED, Rollout, Wish
from routing.rollouts.settings import Rollout as Settings

#: Who has asked for what the file declares.
FILE: Final = "file"


class Order(Record, frozen=True, kw_only=True):
    """An order for a rollout."""

    id: str
    settings: Settings
    actor: str
    at: float
    wish: Wish = "run"
    declared: Annotated[str, Meta(description="Digest of its declaration; empty: it was asked for by hand.")] = ""
    after: Annotated[
        str | None,
        Meta(description="Id of the model's rollout before it; empty: there was none, null: it is not known."),
    ] = None


def place_of(model: str) -> Place:
    """The place of a model's order."""
    return Place(ROLLOUT_ORDERS, model)


def order_of(raw: bytes) -> Order | None:
    """Decode an order; None: there is none, or it cannot be read."""
    try:
        return msgspec.json.decode(raw, type=Order) if raw else None
    except UNREADABLE:
        return None


def is_stale(order: Order, rollout: Rollout) -> bool:
    """Whether an order was for a rollout before the model's last one, and the store has lost those between.

    No clock is asked, as the store's may have jumped since.
    """
    return order.id != rollout.id and order.after is not None and order.after != rollout.id


def is_under_way(order: Order | None, rollout: Rollout | None) -> bool:
    """Whether an order has not come to its end: the controller may not even have seen it."""
    if order is None or rollout is None:
        return order is not None
    if order.id == rollout.id:
        return rollout.phase not in ENDED
    return not is_stale(order, rollout)


def begun(order: Order, model: Model, stable: str, epoch: int, now: float) -> Rollout:
    """Return the rollout that an order begins as; `epoch` is the last one's of the model."""
    return Rollout(
        id=order.id,
        model=order.settings.model,
        stable=stable,
        candidate=order.settings.to,
        configured=model.stable_version,
        settings=order.settings,
        declared=order.declared,
        actor=order.actor,
        started=now,
        phase="preparing",
        epoch=epoch + 1,
        first_epoch=epoch + 1,
        since=now,
    )


def order_of_model(order: Order | None, rollout: Rollout | None) -> Order | None:
    """Return the order that counts of a model: the stored one, unless the rollout that is under way, or that was the
    last, is of a later one, which cannot be read or which the store has lost.
    """
    if rollout is None or (order is not None and order.id == rollout.id):
        return order
    if order is not None and rollout.phase in ENDED and not is_stale(order, rollout):
        return order
    return Order(
        id=rollout.id,
        settings=rollout.settings,
        actor=rollout.actor,
        at=rollout.started,
        declared=rollout.declared,
    )
