"""Alerts on replicas, and on more work than they can do."""

from typing import Final

from observability.metrics import controller_declarations as controller
from observability.metrics import declarations as m
from observability.metrics import reshape_declarations as shapes
from tools.dashboards.alert import Alert
from tools.dashboards.conditions import above, equal
from tools.dashboards.promql import Scope, or_zero, ratio, share

_FIVE: Final = Scope(window="5m")
_NOW: Final = Scope()
_REPLICA: Final = ("model", "pool", "replica")
#: An operator wants it out of service, or its GPU belongs to a wider replica.
_WANTED: Final = ("draining", "drained", "parked")
#: A change of a host group's shape is under way.
_CHANGES: Final = ("prepared", "changing")
_AILING: Final = ("ejected", "wedged")


def fleet_alerts() -> list[Alert]:
    """List the fleet's alerts, the worst first."""
    return [*_replica_alerts(), *_group_alerts(), *_saturation_alerts()]


def _replica_alerts() -> list[Alert]:
    up = _NOW.now(m.REPLICA_UP, *_REPLICA, how="max")
    drained = f"max by ({', '.join(_REPLICA)}) ({_NOW.series(m.REPLICA_STATE, state=_WANTED)} == 1)"
    of_model = _NOW.of_replicas(m.REPLICA_UP, "model")
    # The last replica of a model that goes to zero drains first.
    at_zero = f"sum by (model) ({_NOW.series(controller.SCALING_WANTED)}) == 0"
    ailing = f"max by ({', '.join(_REPLICA)}) ({_NOW.series(m.REPLICA_STATE, state=_AILING)} == 1)"
    return [
        Alert(
            name="NoReplicaReady",
            severity="page",
            condition=equal(f"({of_model} unless ({at_zero}))", 0),
            wait="30s",
            summary="No replica of {{ $labels.model }} takes requests.",
            meaning="Every request for the model gets 503, unless the model has fallbacks.",
            actions=(
                "`penstock replicas list` says the state of each and why.",
                "All `connecting`: is the network there, do the replicas' processes run, have certificates ended? "
                "All `refused`: they serve another model, version or shape than the configuration says. "
                "All `drained`: `penstock replicas resume POOL`.",
            ),
        ),
        Alert(
            name="ReplicaDown",
            severity="ticket",
            condition=equal(f"({up} unless {drained})", 0),
            wait="2m",
            summary="{{ $labels.replica }} of {{ $labels.model }} has been out of service for 2 minutes.",
            meaning="Nobody has drained it. Its part of the work goes to the other replicas.",
            actions=(
                "`penstock replicas list` says its state and why; [operations](operations.md#health) what each means.",
                "Look at the replica's own log. One that comes back is probed and taken in again without anybody's "
                "help.",
            ),
        ),
        Alert(
            name="ReplicaEjected",
            severity="ticket",
            condition=above(f"({or_zero(ailing, up)})", 0),
            wait="1m",
            summary="{{ $labels.replica }} of {{ $labels.model }} is left alone for its faults.",
            meaning="It answers, but fails requests, stands still or is far slower than others of its kind.",
            actions=(
                "`penstock replicas list` says which. The log has the faults with their request ids.",
                "Drain it (`penstock replicas drain REPLICA`) and restart its engine if it is ejected again and again.",
            ),
        ),
        Alert(
            name="ReplicasEjectedOften",
            severity="ticket",
            condition=above(_NOW.over("1h").increase(m.REPLICA_EJECTIONS, *_REPLICA), 3),
            wait="0m",
            summary="{{ $labels.replica }} of {{ $labels.model }} was ejected more than 3 times in an hour.",
            now="{{ $value | humanize }} times.",
            meaning="It passes its probe and then fails again.",
            actions=("Drain it, and look for what fails: the log names the faults that counted against it.",),
        ),
    ]


def _group_alerts() -> list[Alert]:
    changes = f"max by (model, group) ({_NOW.series(m.REPLICA_GROUP, state=_CHANGES)} == 1)"
    places = _NOW.now(m.REPLICA_GROUP, "model", "group", how="max")
    return [
        Alert(
            name="ReshapeControllerGone",
            severity="ticket",
            condition=equal(_NOW.now(shapes.CONTROLLER_UP, how="min"), 0),
            wait="5m",
            summary="Nobody looks after the shapes of replicas.",
            meaning="Host groups stay as they are, as do pools whose replicas take each other's GPUs. Long requests "
            "go on waiting where no replica is wide enough.",
            actions=(
                "`penstock serve` runs the controller and restarts it; its log says why it ended.",
                "Does the store answer (`penstock_store_up`)? The controller acts only while it holds its lease there.",
                "`penstock reshape status` says what was told last, and when.",
            ),
        ),
        Alert(
            name="HostGroupStaysInChange",
            severity="ticket",
            condition=above(f"({or_zero(changes, places)})", 0),
            wait="2m",
            summary="A change of shape of {{ $labels.group }} ({{ $labels.model }}) has not ended for 2 minutes.",
            meaning="It should take seconds. The group's replicas serve, more slowly while it goes on.",
            actions=(
                "`penstock replicas list` says which replicas are `prepared` or `changing`.",
                "Look at their logs: one may have lost the others. A replica that is restarted ends the change: the "
                "group goes back to a shape that it had.",
            ),
        ),
        Alert(
            name="HostGroupChangeFailed",
            severity="ticket",
            condition=above(_NOW.now(m.REPLICA_GROUP_FAILED, "model", "group", how="max"), 0),
            wait="15m",
            summary="The last change of shape of {{ $labels.group }} ({{ $labels.model }}) failed.",
            meaning="The group serves as before. Requests that only the other shape holds go on waiting.",
            actions=(
                "`penstock replicas list` says why. What has to be mended stands there: memory, a link, a replica.",
            ),
        ),
        Alert(
            name="ReshapeEventsLost",
            severity="ticket",
            condition=above(_NOW.over("15m").increase(shapes.EVENTS_LOST), 0),
            wait="0m",
            summary="A webhook has not taken events of shapes.",
            meaning="Whoever listens there does not know how all changes have ended; these go on.",
            actions=("The controller's log has the error.", "`penstock reshape history` has all events."),
        ),
    ]


def _saturation_alerts() -> list[Alert]:
    kv = share(
        _NOW.of_replicas(m.REPLICA_KV_USED, "model", "pool"), _NOW.of_replicas(m.REPLICA_KV_TOTAL, "model", "pool")
    )
    running = _NOW.of_replicas(m.REPLICA_RUNNING, "model")
    shed = ratio(_FIVE.rate(m.ADMISSIONS, "model", result="shed"), _FIVE.rate(m.ADMISSIONS, "model"))
    waited = ratio(_FIVE.rate(m.ADMISSIONS, "model", result=("waited", "shed")), _FIVE.rate(m.ADMISSIONS, "model"))
    more = (
        "Add replicas, or move work: *Tenants* shows whose requests and tokens have grown.",
        "Limits of tenants (`penstock tenants update`) hold a flood back at once.",
    )
    return [
        Alert(
            name="KvCacheNearlyFull",
            severity="ticket",
            condition=above(kv, 0.9),
            wait="10m",
            summary="The KV cache of pool {{ $labels.pool }} ({{ $labels.model }}) is nearly full.",
            now="{{ $value | humanizePercentage }} of its blocks are in use.",
            meaning="More than 90 % have been for 10 minutes. Beyond 95 % requests wait at the gateway, and engines "
            "may begin to preempt.",
            actions=("*Replicas* shows which ones are full, *Tenants* who sends long prompts.", *more),
        ),
        Alert(
            name="QueueGrows",
            severity="ticket",
            condition=above(f"{_NOW.now(m.QUEUE_DEPTH, 'model')} / clamp_min({running}, 1)", 0.5),
            wait="5m",
            summary="Requests for {{ $labels.model }} pile up at the gateway.",
            now="{{ $value | humanize }} requests wait for each sequence that runs.",
            meaning="More than half as many have waited as run, for 5 minutes: latency grows with every request.",
            actions=("*Fleet* shows queue and replicas; see whether some are out of service.", *more),
        ),
        Alert(
            name="MostRequestsWait",
            severity="ticket",
            condition=above(waited, 0.5),
            wait="10m",
            summary="More than half of the requests for {{ $labels.model }} have to wait for their turn.",
            now="{{ $value | humanizePercentage }} found no room at once.",
            meaning="The fleet has no reserve left: with little more work the time to the first token will grow.",
            actions=more,
        ),
        Alert(
            name="Sheds",
            severity="page",
            condition=above(shed, 0.01),
            wait="2m",
            summary="Requests for {{ $labels.model }} are refused, because too many wait.",
            now="{{ $value | humanizePercentage }} of them.",
            meaning="They get 503 `server_is_overloaded`.",
            actions=("See whether replicas are out of service, or one tenant floods (*Tenants*).", *more),
        ),
    ]
