"""The admin operation for charts of a rollout."""

from typing import Annotated, Final

from msgspec import Meta

from gateway.admin.operation import Call, Operation
from gateway.config.base import Record
from gateway.rollouts.rollout_series import RolloutSeries
from protos.errors import RolloutNotFound


class SeriesQuery(Record, frozen=True, kw_only=True):
    """Query parameters that select a model."""

    model: Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description="Only this one.")] = None


class AllSeries(Record, frozen=True, kw_only=True):
    """Series of models' last rollouts."""

    series: list[RolloutSeries]


async def get_series(call: Call[SeriesQuery, None]) -> AllSeries:
    """Return the measures of both versions over time."""
    return AllSeries(series=await call.service.rollouts.series(call.query.model))


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/rollouts/series",
        "getRolloutSeries",
        "What the requests of both versions came to, over the time of the last rollout",
        get_series,
        AllSeries,
        SeriesQuery,
        errors=(RolloutNotFound,),
    ),
)
