"""The service of shapes behind the command line and the admin API: groups, plans, orders, and what became of them."""

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.reshaping.change import HURRY, MOST_STORED, Change, Event, GroupStatus, ModelShapes, Widths, place_of
from gateway.reshaping.shape_orders import ShapeOrder, place_in_store
from gateway.reshaping.shape_records import ShapeRecords, read_shape_events, read_shape_records
from gateway.store.lua_script import Script
from gateway.tenancy.tenants.transactions import Entry, Step, Storage, commit, read, until_committed
from protos.errors import Conflict, GroupNotFound, InvalidRequest, StoreUnavailable
from protos.reshape import Span
from replicas.reshape.host_group import problem_of, spans_of
from replicas.reshape.obstacles import difference, obstacle
from replicas.reshape.ordered_change import ENDED
from replicas.reshape.shape_choices import place_choices, shape_choices
from replicas.reshape.snapshot import ShapedReplica
from replicas.reshape.way import way

#: Events that are told at most.
MOST_TOLD: Final = 500
#: Shapes that a group is offered at most: all that eight GPUs can have are 26.
MOST_CHOICES: Final = 64
# A user who may not publish loses the haste alone: the controller looks once a second.
_ANNOUNCE: Final = Script("redis.pcall('PUBLISH', ARGV[1], '') return 1")


class ShapesView(Record, frozen=True, kw_only=True):
    """All models whose shapes may change."""

    age_seconds: Annotated[
        float | None, Meta(description="Age of what is told; null: no controller has told anything yet.")
    ]
    controller: Annotated[str, Meta(description="Host and process that act; empty: none does now.")]
    models: Sequence[ModelShapes]


class ShapePlan(Record, frozen=True, kw_only=True):
    """A change of a group that was not ordered: its shapes, its cost, and why it would be refused."""

    object: Literal["reshape.plan"] = "reshape.plan"
    model: str
    group: str
    before: Widths
    after: Widths
    refused: Annotated[str, Meta(description="Why it would be refused now; empty: it would not.")] = ""
    gpu_seconds: Annotated[
        float | None, Meta(description="What it costs: time of GPUs that do nothing else; null: not known.")
    ] = None


class OrderView(Record, frozen=True, kw_only=True):
    """An order, and what has become of it."""

    object: Literal["reshape.order"] = "reshape.order"
    id: str
    plan: ShapePlan
    controller: Annotated[str, Meta(description="Host and process that act; empty: none does now.")]
    taken: Annotated[bool, Meta(description="Whether a controller has seen to it.")] = False
    change: Annotated[
        Change | None, Meta(description="The change that it has begun; null: it was not taken, or was refused.")
    ] = None
    refused: Annotated[
        str, Meta(description="Why the controller has not begun with it; empty: it was not refused.")
    ] = ""


class ReshapeRegistry:
    """Shows and orders shapes. Methods raise StoreUnavailable; the audit trail has `actor` (`cli:root`)."""

    def __init__(self, storage: Storage, config: Config) -> None:
        self._storage = storage
        self._models = {model.name: model for model in config.models if model.reshape is not None}

    async def view(self, model: str | None = None) -> ShapesView:
        """All models whose shapes may change, or one, in the configuration's order.

        Raises:
            GroupNotFound: The shapes of no such model change.
        """
        wanted = self._models.values() if model is None else [self._model(model)]
        records = await read_shape_records(self._storage)
        told = _told(records)
        age = None if records.told is None else max(records.now - records.told.at, 0.0)
        return ShapesView(
            age_seconds=age if age is None else round(age, 1),
            controller=records.controller,
            models=[told.get(one.name) or _untold(one) for one in wanted],
        )

    async def events(self, model: str | None, most: int) -> list[Event]:
        """The last events, of one model or of all, the newest last.

        Raises:
            GroupNotFound: The shapes of no such model change.
        """
        if model is not None:
            self._model(model)
        found = await read_shape_events(self._storage, MOST_STORED)
        return [event for event in found if model in (None, event.model)][-most:]

    async def plan(self, model: str, group: str, shape: Sequence[int]) -> ShapePlan:
        """Say what a change to a shape would be, and what forbids it.

        Raises:
            GroupNotFound: There is no such group, as far as the controller has told.
            InvalidRequest: The shape is none.
        """
        self._model(model)
        return _plan(await read_shape_records(self._storage), model, group, shape)

    async def choices(self, model: str, group: str) -> list[ShapePlan]:
        """Plan each shape that a group may be asked to have, the widest replicas first; `MOST_CHOICES` at most.

        Raises:
            GroupNotFound: There is no such group, as far as the controller has told.
        """
        self._model(model)
        records = await read_shape_records(self._storage)
        status = _group(records, model, group)
        return [_plan_of(status, model, shape) for shape in _choices(status)]

    async def apply(self, model: str, group: str, shape: Sequence[int], actor: str) -> OrderView:
        """Order a change to a shape.

        Raises:
            GroupNotFound: There is no such group, as far as the controller has told.
            InvalidRequest: The shape is none, or one that the group's engines or memory cannot have.
            Conflict: A change of it is under way, or a rollout, a drain or anything else forbids one now.
        """
        self._model(model)
        place = place_in_store(place_of(model, group))

        async def handle() -> OrderView | None:
            now, (raw,) = await read(self._storage, [place])
            records = await read_shape_records(self._storage)
            plan = _plan(records, model, group, shape)
            status = _group(records, model, group)
            if status.held:
                raise Conflict(f"group: {group} is not changed now: {status.held}", param="group")
            waiting = records.orders.get(place_of(model, group))
            if waiting is not None and records.waits(waiting):
                raise Conflict(
                    f"group: {group} is not changed now: the order of {waiting.actor} comes first", param="group"
                )
            if plan.refused:
                raise InvalidRequest(f"shape: {group} cannot have it: {plan.refused}", param="shape")
            order = ShapeOrder(
                id=f"{group[:48]}-{secrets.token_hex(6)}",
                model=model,
                group=group,
                shape=plan.after,
                actor=actor,
                at=now,
            )
            written = msgspec.json.encode(order)
            entry = Entry(actor, "reshape.apply", f"{model} {group}", raw, written)
            if not await commit(self._storage, [Step(place, raw, written)], entry):
                return None
            return OrderView(id=order.id, plan=plan, controller=records.controller)

        done = await until_committed(handle)
        # The order stands without the haste.
        with contextlib.suppress(StoreUnavailable):
            await self._storage.run(_ANNOUNCE, [place.key], [HURRY])
        return done

    async def followed(self, order: OrderView) -> OrderView:
        """Return an order as it is by now."""
        # Events first: what they do not tell yet, the records that are read after them may.
        own = [one for one in await read_shape_events(self._storage, MOST_TOLD) if one.order == order.id]
        records = await read_shape_records(self._storage)
        replace, acts = msgspec.structs.replace, records.controller
        change = records.changes.get(place_of(order.plan.model, order.plan.group))
        if change is not None and change.order == order.id:
            return replace(order, controller=acts, taken=True, change=change)
        if not own:
            return replace(order, controller=acts)
        if own[-1].phase == "refused":
            return replace(order, controller=acts, taken=True, refused=own[-1].reason)
        if own[-1].phase in ENDED:
            # Another change has followed already.
            return replace(order, controller=acts, taken=True, change=_ended_with(own[-1], own[0].reason))
        # Its change has ended and another one has followed since the events were read.
        return replace(order, controller=acts, taken=True)

    def _model(self, name: str) -> Model:
        if name not in self._models:
            listed = f"there are {', '.join(self._models)}" if self._models else "no model has `reshape`"
            raise GroupNotFound(f"The shapes of no model '{name[:64]}' change; {listed}.", param="model")
        return self._models[name]


def _ended_with(event: Event, reason: str) -> Change:
    """Return the change that an event is the end of, begun for a reason."""
    return Change(
        id=event.change,
        model=event.model,
        group=event.group,
        method=event.method,
        before=event.before,
        after=event.after,
        phase="failed" if event.phase == "failed" else "done",
        reason=reason,
        actor=event.actor,
        order=event.order,
        started=event.at - (event.seconds or 0.0),
        since=event.at,
        ended=event.at,
        failure=event.reason if event.phase == "failed" else "",
    )


def _choices(status: GroupStatus) -> list[Sequence[int]]:
    widths = [one.width for one in status.widths]
    if status.method == "relaunch":
        found = place_choices(status.gpus, min(widths), max(widths))
        return [one for one in found if one != list(status.shape)][:MOST_CHOICES]
    shapes = shape_choices(spans_of(status.shape), status.gpus, widths, MOST_CHOICES)
    return [[span.width for span in shape] for shape in shapes]


def _plan(records: ShapeRecords, model: str, group: str, shape: Sequence[int]) -> ShapePlan:
    return _plan_of(_group(records, model, group), model, shape)


def _plan_of(status: GroupStatus, model: str, shape: Sequence[int]) -> ShapePlan:
    if not shape or any(width < 1 for width in shape):
        raise InvalidRequest("shape: expected widths of 1 and more, as 1,1,2", param="shape")
    spans = spans_of(shape)
    if status.method == "relaunch":
        return _relaunch_plan(model, status, shape)
    if problem := problem_of(spans, status.gpus):
        raise InvalidRequest(f"shape: {problem}", param="shape")
    replicas = [
        ShapedReplica(one.address, Span(one.start, one.width), one.used, one.longest)
        for one in status.members
        if one.leads
    ]
    holds = {one.width: one.kv_tokens for one in status.widths}
    refused = status.held or obstacle(status.gpus, replicas, holds, spans)
    return ShapePlan(
        model=model,
        group=status.group,
        before=status.shape,
        after=list(shape),
        refused=refused,
        gpu_seconds=_cost(status, spans),
    )


def _relaunch_plan(model: str, status: GroupStatus, shape: Sequence[int]) -> ShapePlan:
    """Plan other replicas in place of those that are there; the controller knows how many of each there may be."""
    widths = [one.width for one in status.widths]
    unknown = [width for width in shape if width not in widths]
    if unknown or sum(shape) != status.gpus:
        listed = " and ".join(str(width) for width in widths)
        raise InvalidRequest(
            f"shape: expected widths of {listed} that come to {status.gpus} GPUs, got {sum(shape)}", param="shape"
        )
    after = sorted(shape, reverse=True)
    refused = status.held or ("it has that shape" if after == list(status.shape) else "")
    coming = max(after) if sum(after) and len(after) < len(status.shape) else min(widths)
    seconds = next((one.change_ms * 1e-3 for one in status.widths if one.width == coming), 0.0)
    return ShapePlan(
        model=model,
        group=status.group,
        before=status.shape,
        after=after,
        refused=refused,
        gpu_seconds=round(seconds * max(widths), 1) if seconds else None,
    )


def _cost(status: GroupStatus, spans: Sequence[Span]) -> float | None:
    if status.problem:
        return None
    shapes = [spans_of(status.shape), *way(spans_of(status.shape), spans)]
    costs = [_cost_of_one(status, *each) for each in pairwise(shapes)]
    known = [cost for cost in costs if cost is not None]
    return round(sum(known), 4) if known and len(known) == len(costs) else None


def _cost_of_one(status: GroupStatus, before: Sequence[Span], after: Sequence[Span]) -> float | None:
    going, coming = difference(before, after)
    known: Mapping[int, int] = {one.width: one.change_ms for one in status.widths}
    if not all(one.width in known for one in coming):
        return None
    parts = coming if len(coming) < len(going) else going
    return max(known[one.width] for one in coming) * 1e-3 * sum(one.width for one in parts)


def _group(records: ShapeRecords, model: str, group: str) -> GroupStatus:
    told = _told(records).get(model)
    groups = {one.group: one for one in told.groups} if told is not None else {}
    if group not in groups:
        listed = f"there are {', '.join(groups)}" if groups else "no replica of the model is in one, as far as is known"
        raise GroupNotFound(f"The model '{model[:64]}' has no group '{group[:64]}'; {listed}.", param="group")
    status = groups[group]
    change = records.changes.get(place_of(model, group))
    if change is not None and not change.is_over and not status.held:
        # It has begun since the controller told of it.
        return msgspec.structs.replace(status, held=f"change {change.id} is {change.phase}", change=change)
    return status


def _told(records: ShapeRecords) -> dict[str, ModelShapes]:
    return {} if records.told is None else {one.model: one for one in records.told.models}


def _untold(model: Model) -> ModelShapes:
    assert model.reshape is not None, "others are not shown"
    return ModelShapes(model=model.name, mode=model.reshape.mode)
