"""Snapshots of two pools whose replicas take each other's GPUs. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gateway.config.models.settings import Model, Pool
from gateway.reshaping.shape_inputs import ShapeInputs
from gateway.scaling.demand.demand_reports import ModelReport
from gateway.scaling.demand.kv_rooms import learned_field, relaunch_pools, relaunch_rooms
from gateway.scaling.demand.merged_demand import short_demand
from gateway.scaling.learned_pools import Learned
from gateway.scaling.settings import slo_of
from gateway.scaling.status import ReplicaProgress
from protos.reshape import Span
from protos.types import Role
from replicas.controller.capacity import replica_capacity
from replicas.controller.scaling_settings import Slo
from replicas.controller.snapshot import PoolSnapshot
from replicas.controller.workload import Workload, workload_of
from replicas.reshape.relaunch import FailedStart, Kind, Relaunch
from replicas.reshape.snapshot import ShapedReplica, Width
from routing.estimates.step_model import StepModel

_NOTHING: Final = Learned()


class RelaunchFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Both pools by name, with those of their replicas that serve, and what each width holds and serves.

    `unknown` says what has to be known before anything is decided; empty: nothing. `least_wide` is how many wide ones
    there are at first. `barred` is what forbids a change, whoever asks for it; empty: nothing does.
    """

    narrow: str
    wide: str
    pools: Relaunch
    narrow_serving: Sequence[ShapedReplica]
    wide_serving: Sequence[ShapedReplica]
    widths: Mapping[int, Width]
    unknown: str
    least_wide: int
    barred: str

    @property
    def group(self) -> str:
        """The name that the places of both go by."""
        return f"{self.narrow}/{self.wide}"


def relaunch_facts(model: Model, inputs: ShapeInputs) -> RelaunchFacts | None:
    """Return what is known; None for a model that has no such pools."""
    pools = relaunch_pools(model)
    if pools is None:
        return None
    narrow, wide = pools
    rooms = dict(zip((narrow.name, wide.name), relaunch_rooms(model, inputs.learned), strict=True))
    reports = [report[model.name] for report in inputs.demand if model.name in report]
    rates = {pool.name: _rate(model, pool, rooms[pool.name], reports, inputs) for pool in pools}
    narrow_rate = rates[narrow.name] or 1.0
    return RelaunchFacts(
        narrow=narrow.name,
        wide=wide.name,
        pools=Relaunch(narrow=_kind(model, narrow, inputs), wide=_kind(model, wide, inputs)),
        narrow_serving=_serving(model, narrow, rooms[narrow.name], inputs),
        wide_serving=_serving(model, wide, rooms[wide.name], inputs),
        widths={
            narrow.shape.value.gpus: Width(rooms[narrow.name], narrow_rate),
            # Until one has run, nothing says that it serves less.
            wide.shape.value.gpus: Width(rooms[wide.name], rates[wide.name] or narrow_rate),
        },
        unknown=_unknown(model, pools, rooms, rates[narrow.name], inputs),
        least_wide=wide.scaling.min if wide.scaling is not None else 0,
        barred=_barred(model, (narrow.name, wide.name), inputs),
    )


def _kind(model: Model, pool: Pool, inputs: ShapeInputs) -> Kind:
    assert pool.scaling is not None, "it is checked that a launcher starts its replicas"
    intents = [intent for intent in inputs.intents if intent.place == (model.name, pool.name)]
    return Kind(
        gpus=pool.shape.value.gpus,
        most=pool.scaling.max,
        exist=len(intents),
        ready=sum(intent.ready and intent.state == "run" for intent in intents),
        start_seconds=_learned(model, pool, inputs).startup_seconds or pool.scaling.startup_seconds,
        start_timeout=pool.scaling.start_timeout_seconds,
        failed=[FailedStart(one.since, one.problem) for one in _failed(model, pool, inputs)],
    )


def _failed(model: Model, pool: Pool, inputs: ShapeInputs) -> Sequence[ReplicaProgress]:
    models = inputs.scaling.models if inputs.scaling is not None else ()
    pools = (one for status in models if status.model == model.name for one in status.pools)
    return next((one.failed for one in pools if one.name == pool.name), ())


def _learned(model: Model, pool: Pool, inputs: ShapeInputs) -> Learned:
    return inputs.learned.get(learned_field(model.name, pool.name, pool.launcher), _NOTHING)


def _unknown(
    model: Model, pools: Sequence[Pool], rooms: Mapping[str, int], narrow_rate: float, inputs: ShapeInputs
) -> str:
    for field, pool in zip(("narrow_kv_tokens", "wide_kv_tokens"), pools, strict=True):
        if not rooms[pool.name]:
            seen = _learned(model, pool, inputs).startups or any(
                intent.ready for intent in inputs.intents if intent.place == (model.name, pool.name)
            )
            why = "tells how many KV tokens it holds" if seen else "was ever seen"
            return f"no replica of pool {pool.name} {why}, and relaunch.{field} does not say it"
    narrow, wide = (pool.name for pool in pools)
    if rooms[wide] <= rooms[narrow]:
        return f"a replica of pool {wide} holds {rooms[wide]} KV tokens, no more than one of {narrow} ({rooms[narrow]})"
    return "" if narrow_rate else f"what a replica of pool {narrow} serves is not known before it has answered requests"


def _serving(model: Model, pool: Pool, kv_tokens: int, inputs: ShapeInputs) -> list[ShapedReplica]:
    """Return the replicas that serve, with what the workers say is used there."""
    span, found = Span(0, pool.shape.value.gpus), []
    for intent in inputs.intents:
        if intent.place == (model.name, pool.name) and intent.ready and intent.state == "run":
            used = inputs.kv_used(model.name, intent.address)
            longest = inputs.longest(model.name, intent.address)
            found.append(ShapedReplica(intent.address, span, round(used * kv_tokens), longest))
    return found


def _rate(model: Model, pool: Pool, kv_tokens: int, reports: Sequence[ModelReport], inputs: ShapeInputs) -> float:
    """Return the short requests per second and GPU that a pool's replicas serve; 0: nobody knows."""
    demand = short_demand(reports)
    workload, learned = None if demand is None else workload_of(demand), _learned(model, pool, inputs)
    times = None if learned.steps is None else StepModel.of(learned.steps)
    if workload is None or times is None:
        return 0.0
    return _full_rate(times, workload, kv_tokens, learned, slo_of(model)) / pool.shape.value.gpus


def _full_rate(times: StepModel, workload: Workload, kv_tokens: int, learned: Learned, slo: Slo) -> float:
    size = PoolSnapshot(
        kv_tokens=kv_tokens, max_sequences=learned.max_sequences, max_step_tokens=learned.max_step_tokens
    )
    return replica_capacity(Role.BOTH, size, times, workload, slo).full_rate


def _barred(model: Model, pools: Sequence[str], inputs: ShapeInputs) -> str:
    if model.name in inputs.rollouts:
        return f"a rollout of {model.name} to {inputs.rollouts[model.name]} is under way"
    for drain in inputs.drains:
        if drain.model == model.name and drain.target.partition("/")[0] in pools:
            return f"{drain.target} is drained by {drain.actor}"
    sized = {one.model: one for one in inputs.scaling.models} if inputs.scaling is not None else {}
    if model.name not in sized:
        return "no controller of sizes acts, which would start and stop replicas"
    status = sized[model.name]
    if status.paused:
        return f"an operator has paused the scaling of {model.name}"
    if status.mode != "act":
        return f"the scaling of {model.name} only advises"
    pinned = [pool.name for pool in status.pools if pool.name in pools and pool.pinned is not None]
    return f"an operator has set the size of {pinned[0]}" if pinned else ""
