"""The replica dashboard: each replica's state, load and KV cache."""

from typing import Final

from observability.metrics import declarations as m
from observability.metrics.metric import Metric
from tools.dashboards.dashboard import CHOSEN, MODEL, POOL, Dashboard, Section
from tools.dashboards.dashboard_kinds import PLACE_COLORS, STATE_COLORS
from tools.dashboards.dashboard_tables import Column, table
from tools.dashboards.panels import GREEN, ORANGE, RED, YELLOW, Panel, Query, lines, states, steps
from tools.dashboards.promql import WHOLE_RANGE, share
from tools.dashboards.shape_panels import shape_panels

UID: Final = "penstock-replicas"
_REPLICA: Final = ("model", "pool", "replica")
_NAMED: Final = "{{replica}} ({{model}})"


def replicas() -> Dashboard:
    """Make the replica dashboard."""
    return Dashboard(
        uid=UID,
        title="Penstock / Replicas",
        description="Each replica: its state, its load and its KV cache, as engines report them.",
        variables=(MODEL, POOL),
        sections=(
            Section("State", (_table(), _states(), _groups())),
            Section("Load", _load()),
            Section("Shapes", shape_panels()),
        ),
    )


def _reported(metric: Metric) -> str:
    return CHOSEN.of_replicas(metric, *_REPLICA)


def _kv() -> str:
    return share(_reported(m.REPLICA_KV_USED), _reported(m.REPLICA_KV_TOTAL))


def _state() -> str:
    """Map a replica's state to its position in `STATE_COLORS`, the worst where gateways differ."""
    by = ", ".join(_REPLICA)
    one_each = (
        f"{place} * max by ({by}) ({CHOSEN.series(m.REPLICA_STATE, state=state)} == 1)"
        for place, state in reversed(tuple(enumerate(STATE_COLORS)))
    )
    return "\nor\n".join(one_each)


def _table() -> Panel:
    shown = CHOSEN.over(WHOLE_RANGE)
    return table(
        "Replicas",
        "`Running` and `Waiting` are sequences in the engine's batch and in its own queue, `Open` those that workers "
        "have there. `Faults` and `Ejections` are of the time that is shown. `Change failed` is 1 where the last "
        "change of its host group's shape was refused or undone.",
        {"model": "Model", "pool": "Pool", "replica": "Replica"},
        [
            Column("State", _state(), names=STATE_COLORS),
            Column("Running", _reported(m.REPLICA_RUNNING)),
            Column("Waiting", _reported(m.REPLICA_WAITING), colors=steps((1, ORANGE), base="text")),
            Column("Open", CHOSEN.now(m.REPLICA_IN_FLIGHT, *_REPLICA)),
            Column("KV cache", _kv(), "percentunit", colors=steps((0.8, YELLOW), (0.95, RED)), bar=True),
            Column("Share", CHOSEN.now(m.REPLICA_SHARE, *_REPLICA, how="min"), "percentunit"),
            Column("Predicted", CHOSEN.now(m.REPLICA_ACCURACY, *_REPLICA, how="min"), "percentunit"),
            Column("Faults", shown.increase(m.REPLICA_FAILURES, *_REPLICA), colors=steps((1, RED), base="text")),
            Column(
                "Change failed",
                CHOSEN.now(m.REPLICA_GROUP_FAILED, *_REPLICA, how="max"),
                colors=steps((1, ORANGE), base="text"),
            ),
            Column("Ejections", shown.increase(m.REPLICA_EJECTIONS, *_REPLICA), colors=steps((1, RED), base="text")),
        ],
        sort_by="Replica",
    )


def _states() -> Panel:
    return states(
        "States over time",
        "The worst state that any worker sees. What each means: docs/operations.md, Health.",
        Query(_state(), _NAMED),
        STATE_COLORS,
    )


def _groups() -> Panel:
    by = ", ".join((*_REPLICA, "group", "gpus"))
    one_each = (
        f"{place} * max by ({by}) ({CHOSEN.series(m.REPLICA_GROUP, state=state)} == 1)"
        for place, state in reversed(tuple(enumerate(PLACE_COLORS)))
    )
    return states(
        "Host groups over time",
        "The GPUs of its host group that each replica serves, or on which it is parked.",
        Query("\nor\n".join(one_each), "{{group}} GPUs {{gpus}}: {{replica}} ({{model}})"),
        PLACE_COLORS,
    )


def _load() -> tuple[Panel, ...]:
    full = steps((0.95, RED), base=GREEN)
    return (
        lines("Running", "Sequences in the engine's batch.", [Query(_reported(m.REPLICA_RUNNING), _NAMED)], "short"),
        lines(
            "Waiting in the engine",
            "Sequences in the engine's own queue. The gateway keeps it short: what waits there cannot go elsewhere.",
            [Query(_reported(m.REPLICA_WAITING), _NAMED)],
            "short",
        ),
        lines(
            "KV cache",
            "The part of the KV blocks that is in use.",
            [Query(_kv(), _NAMED)],
            "percentunit",
            thresholds=full,
            most=1,
        ),
        lines(
            "Open sequences",
            "What the workers have on each replica.",
            [Query(CHOSEN.now(m.REPLICA_IN_FLIGHT, *_REPLICA), _NAMED)],
            "short",
        ),
        lines(
            "KV blocks in use",
            "The blocks themselves: replicas of different shapes have different numbers of them.",
            [Query(_reported(m.REPLICA_KV_USED), _NAMED)],
            "short",
        ),
        lines(
            "Ready replicas of each pool",
            "How many take requests.",
            [Query(CHOSEN.of_replicas(m.REPLICA_UP, "model", "pool"), "{{pool}} ({{model}})")],
            "short",
        ),
    )
