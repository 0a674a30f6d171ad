"""Admin operations on rollouts."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gateway.admin.operation import Call, NoQuery, Operation
from gateway.config.base import Record
from gateway.rollouts.rollout_registry import MOST_TOLD, ModelVersions, RolloutView
from protos.errors import Conflict, InvalidRequest, RolloutNotFound
from routing.rollouts.rollout import Event, Wish
from routing.rollouts.settings import Goal, Plan, RolloutBounds, RolloutSplit, ShadowSettings, Warmup
from routing.rollouts.settings import Rollout as Settings

_UNSET: Final = "Unset: as the file declares for this version, else the default."


class RolloutsQuery(Record, frozen=True, kw_only=True):
    """Query parameters that select a model."""

    model: Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description="Only this one.")] = None


class HistoryQuery(RolloutsQuery, frozen=True, kw_only=True):
    """Query parameters that select events."""

    limit: Annotated[int, Meta(ge=1, le=MOST_TOLD, description="Events at most, the newest ones.")] = 50


class RolloutModelRequest(Record, frozen=True, kw_only=True):
    """A model with a rollout."""

    model: Annotated[str, Meta(min_length=1)]


class StartRolloutRequest(Record, frozen=True, kw_only=True):
    """The body that starts a rollout: its model, version and plan. Gates and webhooks are the file's alone."""

    model: Annotated[str, Meta(min_length=1)]
    to: Annotated[str, Meta(min_length=1, max_length=128, description="The candidate's version.")]
    plan: Annotated[Plan | None, Meta(description=_UNSET)] = None
    stages: Annotated[
        Annotated[tuple[Annotated[float, Meta(gt=0, le=1)], ...], Meta(min_length=1, max_length=64)] | None,
        Meta(description=f"The candidate's shares, rising up to 1. {_UNSET}"),
    ] = None
    hold_seconds: Annotated[Annotated[float, Meta(ge=0, le=604_800)] | None, Meta(description=_UNSET)] = None
    min_requests: Annotated[Annotated[int, Meta(ge=0, le=1_000_000)] | None, Meta(description=_UNSET)] = None
    surge: Annotated[Annotated[int, Meta(ge=1, le=1024)] | None, Meta(description=_UNSET)] = None
    split: Annotated[RolloutSplit | None, Meta(description=_UNSET)] = None
    bounds: Annotated[RolloutBounds | None, Meta(description=_UNSET)] = None
    shadow: Annotated[ShadowSettings | None, Meta(description=_UNSET)] = None
    goal: Annotated[Goal | None, Meta(description=_UNSET)] = None
    warmup: Annotated[Warmup | None, Meta(description=_UNSET)] = None


class Rollouts(Record, frozen=True, kw_only=True):
    """Models that go by version, each with its last rollout."""

    models: list[ModelVersions]


class RolloutEvents(Record, frozen=True, kw_only=True):
    """Events, the newest last."""

    events: list[Event]


async def get_rollouts(call: Call[RolloutsQuery, None]) -> Rollouts:
    """Return models with versions and their rollouts."""
    return Rollouts(models=await call.service.rollouts.models(call.query.model))


async def get_rollout_history(call: Call[HistoryQuery, None]) -> RolloutEvents:
    """Return the last events."""
    return RolloutEvents(events=await call.service.rollouts.events(call.query.model, call.query.limit))


async def start_rollout(call: Call[NoQuery, StartRolloutRequest]) -> RolloutView:
    """Order a rollout."""
    body = call.body
    given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
    base = call.service.rollouts.settings(body.model, body.to)
    if body.plan not in (None, base.plan):
        # The stages and goals that are declared are another plan's.
        base = Settings(model=body.model, to=body.to)
    return await call.service.rollouts.start(msgspec.structs.replace(base, **given), call.actor)


async def promote_rollout(call: Call[NoQuery, RolloutModelRequest]) -> RolloutView:
    """Make the candidate stable, whatever was measured."""
    return await _set(call, "promote")


async def abort_rollout(call: Call[NoQuery, RolloutModelRequest]) -> RolloutView:
    """Give everything back to the stable version."""
    return await _set(call, "abort")


async def pause_rollout(call: Call[NoQuery, RolloutModelRequest]) -> RolloutView:
    """Keep a rollout where it is."""
    return await _set(call, "pause")


async def resume_rollout(call: Call[NoQuery, RolloutModelRequest]) -> RolloutView:
    """Undo a pause."""
    return await _set(call, "run")


async def _set(call: Call[NoQuery, RolloutModelRequest], wish: Wish) -> RolloutView:
    return await call.service.rollouts.set_wish(call.body.model, wish, call.actor)


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/rollouts",
        "listRollouts",
        "Models that go by version, with their last rollouts: phase, share, verdict and events",
        get_rollouts,
        Rollouts,
        RolloutsQuery,
        errors=(RolloutNotFound,),
    ),
    Operation(
        "GET",
        "/admin/rollouts/history",
        "listRolloutEvents",
        "What has happened to rollouts, with reasons and verdicts",
        get_rollout_history,
        RolloutEvents,
        HistoryQuery,
        errors=(RolloutNotFound,),
    ),
    Operation(
        "POST",
        "/admin/rollouts/start",
        "startRollout",
        "Change a model's version, by stages or at once; one rollout of a model at a time",
        start_rollout,
        RolloutView,
        body=StartRolloutRequest,
        errors=(InvalidRequest, RolloutNotFound, Conflict),
    ),
    Operation(
        "POST",
        "/admin/rollouts/promote",
        "promoteRollout",
        "Make the candidate the stable version now, whatever was measured, once its replicas are ready",
        promote_rollout,
        RolloutView,
        body=RolloutModelRequest,
        errors=(RolloutNotFound, Conflict),
    ),
    Operation(
        "POST",
        "/admin/rollouts/abort",
        "abortRollout",
        "Roll back: new requests go to the stable version within a second, streams end where they are",
        abort_rollout,
        RolloutView,
        body=RolloutModelRequest,
        errors=(RolloutNotFound, Conflict),
    ),
    Operation(
        "POST",
        "/admin/rollouts/pause",
        "pauseRollout",
        "Keep a rollout at its stage; a worse candidate is rolled back all the same",
        pause_rollout,
        RolloutView,
        body=RolloutModelRequest,
        errors=(RolloutNotFound, Conflict),
    ),
    Operation(
        "POST",
        "/admin/rollouts/resume",
        "resumeRollout",
        "Undo a pause",
        resume_rollout,
        RolloutView,
        body=RolloutModelRequest,
        errors=(RolloutNotFound, Conflict),
    ),
)
