"""Make the rows of `penstock top`: cells with styles, in which colour is never the only sign of anything."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from gateway.admin.live.view import Live, PoolLive, RecentRoute, Times
from gateway.cli.rollout.rollout_text import phase_of
from gateway.cli.top.top_text import count, duration, share
from gateway.fleets.listing import UNKNOWN, UNREPORTED_LOAD, ReplicaView, ShapeView
from gateway.rollouts.rollout_registry import ModelVersions
from routing.health.replica_status import State
from routing.rollouts.rollout import ENDED

#: Text and style of each cell.
Row = Sequence[tuple[str, str]]

_GOOD: Final = (State.READY.value, State.RETURNING.value, State.PARKED.value)
_STYLES: Final = {
    **dict.fromkeys(_GOOD, "green"),
    State.PARKED.value: "dim",
    **dict.fromkeys((State.DRAINING.value, State.DRAINED.value), "yellow"),
}
_SILENT: Final = (UNKNOWN, *(state.value for state in UNREPORTED_LOAD))


def times_cells(times: Times | None) -> list[str]:
    """Format percentiles 50, 95 and 99."""
    return ["-", "-", "-"] if times is None else [duration(times.p50), duration(times.p95), duration(times.p99)]


def replica_rows(live: Live, wide: bool) -> list[Row]:
    """Make one row a replica, those in trouble first: there may be room for no others."""
    rows = [(model.name, pool, row) for model in live.models for pool in model.pools for row in pool.replicas]
    rows.sort(key=lambda found: found[2].state in _GOOD)
    return [_replica(model, pool, row, wide) for model, pool, row in rows]


def rollout_rows(live: Live) -> list[Row]:
    """Make a row of each rollout that is under way, or that cannot be read."""
    return [_rollout(one.versions) for one in live.rollouts or () if _is_shown(one.versions)]


def _is_shown(versions: ModelVersions) -> bool:
    view = versions.rollout
    return bool(versions.unreadable) or (view is not None and view.rollout.phase not in ENDED)


def _rollout(versions: ModelVersions) -> Row:
    view = versions.rollout
    if versions.unreadable or view is None:
        why = f"{', '.join(versions.unreadable)} cannot be read"
        return [(versions.model, "bold"), (versions.stable, ""), *[("-", "")] * 4, (why, "bold red")]
    rollout = view.rollout
    verdict = (rollout.verdict or "-").replace("_", " ")
    return [
        (rollout.model, "bold"),
        (rollout.stable, ""),
        (rollout.candidate, ""),
        (phase_of(view), "red" if rollout.phase == "rolling_back" else ""),
        (share(rollout.share), ""),
        (verdict, "yellow" if rollout.verdict == "inconclusive" else ""),
        (rollout.problem if view.controller else "no controller acts now", "" if view.controller else "bold red"),
    ]


def route_row(route: RecentRoute) -> Row:
    """Describe where a request went, and why."""
    at = datetime.fromtimestamp(route.time).astimezone().strftime("%H:%M:%S")
    cells = [at, route.replica, route.policy, count(route.cached), count(route.predicted), duration(route.ttft or None)]
    return [*((cell, "") for cell in cells), (route.reason, "dim")]


def _replica(model: str, pool: PoolLive, row: ReplicaView, wide: bool) -> Row:
    heard = row.state not in _SILENT
    kv = row.kv_blocks_used / row.kv_blocks_total if heard and row.kv_blocks_total else None
    cells = [
        (row.id, "bold"),
        (_shape(row.shape), ""),
        (row.state, _STYLES.get(row.state, "bold red")),
        (share(row.share), ""),
        (count(row.running if heard else None), ""),
        (count(row.waiting if heard else None), ""),
        ("-" if kv is None else share(kv), "yellow" if kv is not None and kv >= 0.9 else ""),
        (count(row.in_flight), ""),
    ]
    if wide:
        cells = [(model, ""), *cells[:2], (pool.role.value, ""), *cells[2:], (row.version or "-", "dim")]
    return [*cells, (_why(row), "")]


def _shape(shape: ShapeView) -> str:
    degrees = (("tp", shape.tp), ("ep", shape.ep), ("pp", shape.pp))
    return "-".join(f"{name}{degree}" for name, degree in degrees if name == "tp" or degree > 1)


def _why(row: ReplicaView) -> str:
    parts = [row.reason] if row.reason else []
    if row.drain is not None:
        parts.append(f"by {row.drain.actor}")
    if row.breaker_seconds:
        parts.append(f"again in {row.breaker_seconds:.0f} s")
    return "; ".join(parts)
