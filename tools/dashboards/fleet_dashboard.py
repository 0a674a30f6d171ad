"""The fleet dashboard, the first one to look at: is everything well, and if not, which dashboard says more."""

from typing import Final

from observability.metrics import declarations as m
from tools.dashboards.dashboard import CHOSEN, MODEL, POOL, Dashboard, Section
from tools.dashboards.dashboard_kinds import COUNTED, FAILURES, OUTCOME_COLORS, STATE_COLORS, TOKEN_COLORS
from tools.dashboards.dashboard_tables import Column, table
from tools.dashboards.objectives import Objectives
from tools.dashboards.panels import GREEN, ORANGE, RED, YELLOW, Panel, Query, lines, stat, steps
from tools.dashboards.percentiles import percentiles
from tools.dashboards.promql import WHOLE_RANGE, ratio, share

UID: Final = "penstock-fleet"
_ALERTS: Final = 'ALERTS{alertname=~"Penstock.+"}'


def fleet(objectives: Objectives) -> Dashboard:
    """Make the fleet dashboard."""
    return Dashboard(
        uid=UID,
        title="Penstock / Fleet",
        description="Is everything well? Requests, failures, latency, and how full the fleet is.",
        variables=(MODEL, POOL),
        sections=(
            Section("Now", _now(objectives)),
            Section("Requests", _requests()),
            Section("Latency and load", _load()),
            Section("Alerts", (_alerts(),)),
        ),
    )


def _now(objectives: Objectives) -> tuple[Panel, ...]:
    target, budget = objectives.answered.target, objectives.answered.budget
    shown = CHOSEN.over(WHOLE_RANGE)
    bad, counted = shown.rate(m.REQUESTS, outcome=FAILURES), shown.rate(m.REQUESTS, outcome=COUNTED)
    ready, there = (
        CHOSEN.of_replicas(m.REPLICA_UP),
        f"count({CHOSEN.now(m.REPLICA_UP, 'model', 'pool', 'replica', how='max')})",
    )
    kv = share(CHOSEN.of_replicas(m.REPLICA_KV_USED), CHOSEN.of_replicas(m.REPLICA_KV_TOTAL))
    return (
        stat("Requests", "Requests that ended, a second.", CHOSEN.rate(m.REQUESTS), "reqps"),
        stat(
            "Availability",
            "The part of the requests that was not failed by the service, over the time that is shown. What clients "
            "did wrong, or had no right to, does not count.",
            f"1 - {ratio(bad, counted)}",
            "percentunit",
            thresholds=steps((target - 10 * budget, ORANGE), (target, GREEN), base=RED),
            decimals=2,
            instant=True,
        ),
        stat(
            "TTFT, p95",
            "95 of 100 streamed answers begin within this time.",
            CHOSEN.quantile(0.95, m.FIRST_TOKEN_SECONDS),
            "s",
            thresholds=steps((objectives.first_token_seconds / 2, YELLOW), (objectives.first_token_seconds, RED)),
        ),
        stat(
            "Output tokens",
            "Tokens that answers have, a second, reasoning included.",
            CHOSEN.rate(m.TOKENS, kind=("output", "reasoning")),
            "suffix: tok/s",
            decimals=0,
        ),
        stat(
            "Under way", "Requests that workers have in hand, waiting ones included.", CHOSEN.now(m.IN_FLIGHT), "short"
        ),
        stat(
            "Waiting",
            "Requests that wait at the gateway for room on a replica.",
            CHOSEN.now(m.QUEUE_DEPTH),
            "short",
            thresholds=steps((1, YELLOW), (100, ORANGE)),
        ),
        stat(
            "Replicas ready",
            "The part of the replicas that takes requests.",
            f"{ready} / {there}",
            "percentunit",
            thresholds=steps((0.5, ORANGE), (0.999, GREEN), base=RED),
            decimals=0,
        ),
        stat(
            "KV cache",
            "The part of all KV blocks that is in use.",
            kv,
            "percentunit",
            thresholds=steps((0.8, YELLOW), (0.95, RED)),
            decimals=0,
        ),
    )


def _requests() -> tuple[Panel, ...]:
    everything, failed = CHOSEN.rate(m.REQUESTS), CHOSEN.rate(m.REQUESTS, outcome=FAILURES)
    by_outcome = CHOSEN.rate(m.REQUESTS, "outcome", outcome=FAILURES)
    return (
        lines(
            "Requests by outcome",
            "How requests end. `ok` and `cut` have an answer; the client is at fault in `invalid`, `denied`, `limited` "
            "and `client_gone`; `deferred` is in the background and is tried again; the service is in "
            "`shed`, `timeout`, `replica_error`, `store_error`, `internal_error`.",
            [Query(CHOSEN.rate(m.REQUESTS, "outcome"), "{{outcome}}")],
            "reqps",
            stacked=True,
            colors=OUTCOME_COLORS,
        ),
        lines(
            "Failures of the service",
            "The part of all requests that the service failed, by how.",
            [
                Query(ratio(failed, everything), "all failures"),
                Query(f"{by_outcome}\n/ on () group_left ()\n({everything} > 0)", "{{outcome}}"),
            ],
            "percentunit",
            colors=OUTCOME_COLORS,
        ),
        lines(
            "Requests by model",
            "Which model is asked for.",
            [Query(CHOSEN.rate(m.REQUESTS, "model"), "{{model}}")],
            "reqps",
        ),
        lines(
            "Tokens",
            "What engines compute and save: `input` was computed, `cached` was found in the KV cache, `rejected` was "
            "asked for and refused.",
            [Query(CHOSEN.rate(m.TOKENS, "kind"), "{{kind}}")],
            "suffix: tok/s",
            colors=TOKEN_COLORS,
            width=12,
        ),
        lines(
            "Cost an hour",
            "What the requests of an hour at this pace cost, by the prices of the configuration.",
            [Query(f"3600 * {CHOSEN.rate(m.COST, 'model')}", "{{model}}")],
            "currencyUSD",
            width=12,
        ),
    )


def _load() -> tuple[Panel, ...]:
    used, total = (CHOSEN.of_replicas(each, "model", "pool") for each in (m.REPLICA_KV_USED, m.REPLICA_KV_TOTAL))
    return (
        percentiles(
            "Time to first token (TTFT)",
            "From a request's arrival to the first token, of streams.",
            CHOSEN,
            m.FIRST_TOKEN_SECONDS,
        ),
        percentiles(
            "Between tokens (ITL)", "From one event with tokens to the next, of streams.", CHOSEN, m.INTER_TOKEN_SECONDS
        ),
        percentiles("Whole requests", "From arrival to the end of the answer.", CHOSEN, m.REQUEST_SECONDS),
        lines(
            "Waiting at the gateway",
            "Requests in the fair queue. It fills when no replica has room.",
            [Query(CHOSEN.now(m.QUEUE_DEPTH, "model"), "{{model}}")],
            "short",
        ),
        lines(
            "KV cache by pool",
            "The part of the KV blocks that is in use. Beyond 95 % nothing more is sent to a replica.",
            [Query(share(used, total), "{{pool}} ({{model}})")],
            "percentunit",
            thresholds=steps((0.9, ORANGE), (0.95, RED)),
            most=1,
        ),
        lines(
            "Replicas by state",
            "How many replicas are in each state, as the worker that thinks worst of each sees it.",
            [Query(CHOSEN.now(m.REPLICA_STATE, "state"), "{{state}}")],
            "short",
            stacked=True,
            colors=STATE_COLORS,
        ),
    )


def _alerts() -> Panel:
    keys = {"alertname": "Alert", "alertstate": "State", "severity": "Severity"}
    keys |= {"model": "Model", "pool": "Pool", "replica": "Replica", "tenant": "Tenant"}
    by = ", ".join(keys)
    return table(
        "Alerts",
        "Prometheus' alerts that fire or are about to (pending). docs/alerts.md says what to do.",
        keys,
        [Column("Raised", f"count by ({by}) ({_ALERTS})")],
        sort_by="Alert",
        height=7,
        empty="No alert",
    )
