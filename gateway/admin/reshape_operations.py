"""Admin operations on shapes."""

from typing import Annotated, Final

from msgspec import Meta

from gateway.admin.operation import Call, NoQuery, Operation
from gateway.config.base import Record
from gateway.reshaping.change import Event
from gateway.reshaping.reshape_registry import MOST_CHOICES, MOST_TOLD, OrderView, ShapePlan, ShapesView
from protos.errors import Conflict, GroupNotFound, InvalidRequest


class ShapesQuery(Record, frozen=True, kw_only=True):
    """Query parameters that select a model."""

    model: Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description="Only this one.")] = None


class ShapeEventsQuery(ShapesQuery, frozen=True, kw_only=True):
    """Query parameters that select events."""

    limit: Annotated[int, Meta(ge=1, le=MOST_TOLD, description="Events at most, the newest ones.")] = 50


class GroupQuery(Record, frozen=True, kw_only=True):
    """Query parameters that select a group."""

    model: Annotated[str, Meta(min_length=1)]
    group: Annotated[str, Meta(min_length=1, max_length=256)]


class ShapeRequest(Record, frozen=True, kw_only=True):
    """A shape for a group."""

    model: Annotated[str, Meta(min_length=1)]
    group: Annotated[str, Meta(min_length=1, max_length=256)]
    shape: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=1024)], ...],
        Meta(
            min_length=1,
            max_length=1024,
            description="Widths of its replicas, from its first GPU on: `[4]`, or `[2, 1, 1]`.",
        ),
    ]


class ShapeEvents(Record, frozen=True, kw_only=True):
    """Events, the newest last."""

    events: list[Event]


class ShapeChoices(Record, frozen=True, kw_only=True):
    """Shapes that a group may be asked to have, other than its own; the widest replicas first."""

    plans: Annotated[
        list[ShapePlan],
        Meta(
            description=f"At most {MOST_CHOICES}. Where there are more shapes: those of one width alone, and those "
            "that the fewest changes lead to."
        ),
    ]


async def get_shapes(call: Call[ShapesQuery, None]) -> ShapesView:
    """Return models whose shapes may change."""
    return await call.service.shapes.view(call.query.model)


async def get_shape_history(call: Call[ShapeEventsQuery, None]) -> ShapeEvents:
    """Return the last events."""
    return ShapeEvents(events=await call.service.shapes.events(call.query.model, call.query.limit))


async def plan_shape(call: Call[NoQuery, ShapeRequest]) -> ShapePlan:
    """Say what a change would be."""
    body = call.body
    return await call.service.shapes.plan(body.model, body.group, body.shape)


async def get_shape_choices(call: Call[GroupQuery, None]) -> ShapeChoices:
    """Plan all shapes of a group."""
    return ShapeChoices(plans=await call.service.shapes.choices(call.query.model, call.query.group))


async def apply_shape(call: Call[NoQuery, ShapeRequest]) -> OrderView:
    """Order a change."""
    body = call.body
    return await call.service.shapes.apply(body.model, body.group, body.shape, call.actor)


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/reshape",
        "getShapes",
        "Host groups, how their replicas stand, what is advised, and their last changes",
        get_shapes,
        ShapesView,
        ShapesQuery,
        errors=(GroupNotFound,),
    ),
    Operation(
        "GET",
        "/admin/reshape/history",
        "listShapeEvents",
        "Changes of shapes, decisions that were only told, and orders that were refused, with reasons",
        get_shape_history,
        ShapeEvents,
        ShapeEventsQuery,
        errors=(GroupNotFound,),
    ),
    Operation(
        "GET",
        "/admin/reshape/choices",
        "listShapeChoices",
        "Shapes that a group may be asked to have, what each costs, and what forbids it",
        get_shape_choices,
        ShapeChoices,
        GroupQuery,
        errors=(GroupNotFound,),
    ),
    Operation(
        "POST",
        "/admin/reshape/plan",
        "planShape",
        "What a change of a group would be, and what forbids it; nothing is changed",
        plan_shape,
        ShapePlan,
        body=ShapeRequest,
        errors=(InvalidRequest, GroupNotFound),
    ),
    Operation(
        "POST",
        "/admin/reshape/apply",
        "applyShape",
        "Change a group's shape; refused while a change, a rollout or a drain of it is under way",
        apply_shape,
        OrderView,
        body=ShapeRequest,
        errors=(InvalidRequest, GroupNotFound, Conflict),
    ),
)
