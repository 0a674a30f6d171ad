"""Alerts on pools that scale: what is wanted does not come, or nobody decides."""

from typing import Final

from observability.metrics import controller_declarations as m
from tools.dashboards.alert import Alert
from tools.dashboards.conditions import above, both, equal
from tools.dashboards.promql import Scope

_NOW: Final = Scope()
_POOL: Final = ("model", "pool")


def scaling_alerts() -> list[Alert]:
    """List the alerts on scaling, the worst first."""
    wanted, ready = _NOW.now(m.SCALING_WANTED, *_POOL, how="max"), _NOW.now(m.SCALING_READY, *_POOL, how="max")
    most = _NOW.now(m.SCALING_MAX, *_POOL, how="max")
    acts = _NOW.now(m.SCALING_ACTS, "model", how="max")
    missed = _NOW.now(m.SCALING_SLO, "model", how="max")
    room = f"max by (model) ({most} - {wanted})"
    return [
        Alert(
            name="ScalingControllerGone",
            severity="page",
            condition=equal(_NOW.now(m.SCALING_CONTROLLER_UP, how="min"), 0),
            wait="1m",
            summary="Nobody sizes the pools that scale.",
            meaning="What runs goes on as it is: more load starts no replica, and a model at zero stays there.",
            actions=(
                "`penstock serve` runs the controller and restarts it; its log says why it ended.",
                "Does the store answer (`penstock_store_up`)? The controller acts only while it holds its lease there.",
                "`penstock scale list` says what was told last, and when.",
            ),
        ),
        Alert(
            name="ScalingWantedNotReached",
            severity="page",
            condition=above(f"(({wanted} - {ready}) and on (model) ({acts} == 1))", 0),
            wait="15m",
            summary="Pool {{ $labels.pool }} of {{ $labels.model }} has had fewer replicas than wanted for 15 minutes.",
            now="{{ $value | humanize }} are missing.",
            meaning="Replicas are started and do not come to serve, or cannot be started.",
            actions=(
                "`penstock scale list` shows the step of each start and what the launcher says.",
                "Steps that last: `allocate` is the machines' or the cluster's room, `load` the weights' source. "
                "The replicas' own logs say more.",
                "Is a start-up truly so long, set `scaling.startup_seconds` of the pool.",
            ),
        ),
        Alert(
            name="ScalingLauncherFails",
            severity="ticket",
            condition=above(_NOW.now(m.SCALING_LAUNCHER_FAILING, *_POOL, how="max"), 0),
            wait="5m",
            summary="The launcher of pool {{ $labels.pool }} ({{ $labels.model }}) does not do what is asked of it.",
            meaning="Nothing is started or stopped there until it answers; what runs goes on.",
            actions=(
                "`penstock scale list` has its last error.",
                "`launcher: command`: run the operator's own commands by hand, as the log shows them.",
            ),
        ),
        Alert(
            name="ScalingAtMaximum",
            severity="ticket",
            condition=both(equal(room, 0), above(missed, 1)),
            wait="10m",
            summary="{{ $labels.model }} has as many replicas as it may, and misses its latency targets.",
            meaning="No pool of the model may grow any more; p95 of the time to the first token, or between tokens, is "
            "over its target.",
            actions=(
                "Raise `scaling.max` of a pool, if there is capacity and money for it.",
                "Limits of tenants (`penstock tenants update`) hold a flood back at once.",
                "`penstock scale explain` says what the load needs.",
            ),
        ),
    ]
