"""Alerts on rollouts and drift: a candidate that was rolled back, a rollout that stands still, traffic that moved."""

from typing import Final

from observability.metrics import controller_declarations as m
from tools.dashboards.alert import Alert
from tools.dashboards.conditions import above, both, equal
from tools.dashboards.promql import Not, Scope

_NOW: Final = Scope()
#: Phases in which a rollout does not stand still: it has ended, or an A/B test and a shadow take their time.
_ENDED: Final = Not(("done", "rolled_back", "testing", "shadowing"))


def rollout_alerts() -> list[Alert]:
    """List the alerts on rollouts, the worst first."""
    back = _NOW.over("15m").increase(m.ROLLOUTS, "model", "cause", outcome="rolled_back", cause=Not(("aborted",)))
    since = _NOW.now(m.ROLLOUT_SINCE, "model", how="max")
    under_way = _NOW.now(m.ROLLOUT_PHASE, "model", how="max", phase=_ENDED)
    paused = _NOW.now(m.ROLLOUT_PAUSED, "model", how="max")
    return [
        Alert(
            name="RolloutControllerGone",
            severity="ticket",
            condition=equal(_NOW.now(m.ROLLOUT_CONTROLLER_UP, how="min"), 0),
            wait="5m",
            summary="Nobody looks after rollouts.",
            meaning="Requests stay divided as they are; a candidate that is worse is not rolled back.",
            actions=(
                "`penstock serve` runs the controller and restarts it; its log says why it ended.",
                "Does the store answer (`penstock_store_up`)? The controller acts only while it holds its lease there.",
            ),
        ),
        Alert(
            name="RolledBack",
            severity="ticket",
            condition=above(back, 0),
            wait="0m",
            summary="The candidate of {{ $labels.model }} was rolled back ({{ $labels.cause }}).",
            meaning="The stable version answers everything again.",
            actions=(
                "`penstock rollout history MODEL` and the rollout's page in the console have the reason; the page has "
                "the measures of both versions, too.",
                "`slow`, `failed_warmup`, `not_ready`, `gone`: the candidate's replicas; their logs say more.",
                "`inconclusive`: a shadow had too few copies; the reason says how many were left out, and why.",
            ),
        ),
        Alert(
            name="RolloutStuck",
            severity="ticket",
            condition=both(above(f"(time() - {since})", 3600), both(equal(under_way, 1), equal(paused, 0))),
            wait="5m",
            summary="The rollout of {{ $labels.model }} has been in one stage for over an hour.",
            meaning="It waits for something: replicas, requests, or a verdict that does not come.",
            actions=(
                "`penstock rollout status MODEL` says what it waits for.",
                "Too few requests: lower `min_requests`, or promote or abort it by hand.",
            ),
        ),
        Alert(
            name="RolloutEventsLost",
            severity="ticket",
            condition=above(_NOW.over("15m").increase(m.ROLLOUT_EVENTS_LOST), 0),
            wait="0m",
            summary="A webhook has not taken events of rollouts.",
            meaning="Whoever listens there does not know of all steps; the rollouts go on.",
            actions=(
                "The controller's log names the address and the error.",
                "`penstock rollout history` has all events.",
            ),
        ),
        Alert(
            name="Drifted",
            severity="ticket",
            condition=above(_NOW.now(m.DRIFTED, "model", "version", "of", how="max"), 0),
            wait="30m",
            summary="{{ $labels.of }} of {{ $labels.model }} (version {{ $labels.version }}) is unlike its reference.",
            meaning="What clients send has changed (version `-`), or what the version answers.",
            actions=(
                "`penstock drift list --model MODEL` says what has moved, and by how much.",
                "Answers: has the engine changed, or its settings? Prompts: is there a new tenant, or a new use of an "
                "old one?",
                "If it shall stay so: `penstock drift reset MODEL` begins a new reference.",
            ),
        ),
    ]
