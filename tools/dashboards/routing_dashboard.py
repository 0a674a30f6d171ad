"""The routing dashboard: which replicas get requests, what the KV caches save, and what moves after a failure."""

from typing import Final

from observability.metrics import declarations as m
from tools.dashboards.dashboard import CHOSEN, MODEL, POOL, Dashboard, Section
from tools.dashboards.panels import BLUE, GREEN, GREY, ORANGE, RED, Panel, Query, heatmap, lines, steps
from tools.dashboards.promql import ratio

UID: Final = "penstock-routing"
_REPLICA: Final = ("model", "pool", "replica")
_NAMED: Final = "{{replica}} ({{model}})"
_POOL: Final = "{{pool}} ({{model}})"


def routing() -> Dashboard:
    """Make the routing and cache dashboard."""
    return Dashboard(
        uid=UID,
        title="Penstock / Routing and cache",
        description="Which replicas requests go to, what the KV caches save, and what goes elsewhere after a failure.",
        variables=(MODEL, POOL),
        sections=(
            Section("Decisions", _decisions()),
            Section("Cached prefixes", _prefixes()),
            Section("After failures", _failures()),
            Section("Sizes", _sizes()),
        ),
    )


def _decisions() -> tuple[Panel, ...]:
    return (
        lines(
            "Requests by pool",
            "Which pool answered; `-` are requests that came to none.",
            [Query(CHOSEN.observed(m.REQUEST_SECONDS, "model", "pool"), _POOL)],
            "reqps",
            stacked=True,
            width=12,
        ),
        lines(
            "Decisions by reason",
            "Which policy sent requests on, and why, in its own words.",
            [Query(CHOSEN.rate(m.ROUTED, "policy", "reason"), "{{policy}}: {{reason}}")],
            "reqps",
            stacked=True,
            width=12,
        ),
        lines(
            "Turns",
            "How requests got their turn: at once, after waiting at the gateway, or not at all (`shed`; "
            "`deferred`: in the background, and tried again).",
            [Query(CHOSEN.rate(m.ADMISSIONS, "result"), "{{result}}")],
            "reqps",
            stacked=True,
            width=12,
            colors={"at_once": GREEN, "waited": ORANGE, "shed": RED, "deferred": "light-yellow"},
        ),
        lines(
            "Sequences by replica",
            "What workers have on each replica. Shapes differ, so even lines are not the aim.",
            [Query(CHOSEN.now(m.REPLICA_IN_FLIGHT, *_REPLICA), _NAMED)],
            "short",
            width=12,
        ),
    )


def _prefixes() -> tuple[Panel, ...]:
    prompt, predicted, cached = (CHOSEN.rate(m.PREFIX_TOKENS, kind=kind) for kind in ("prompt", "predicted", "cached"))
    by_pool = CHOSEN.rate(m.PREFIX_TOKENS, "model", "pool", kind="cached")
    prompts_by_pool = CHOSEN.rate(m.PREFIX_TOKENS, "model", "pool", kind="prompt")
    return (
        lines(
            "Prompt tokens in the cache",
            "`predicted`: what the chosen replica was expected to hold of the prompts; `found`: what its engine then "
            "found. Where the two part, the index of prefixes is wrong or engines forget sooner than they say.",
            [Query(ratio(predicted, prompt), "predicted"), Query(ratio(cached, prompt), "found")],
            "percentunit",
            colors={"predicted": GREY, "found": GREEN},
            most=1,
        ),
        lines(
            "Found, by pool",
            "The part of the prompt tokens that the engines of a pool found in their KV cache.",
            [Query(ratio(by_pool, prompts_by_pool), _POOL)],
            "percentunit",
            most=1,
        ),
        lines(
            "How well the cache is predicted",
            "1: each prediction held. A replica whose index is wrong is believed less.",
            [Query(CHOSEN.now(m.REPLICA_ACCURACY, *_REPLICA, how="min"), _NAMED)],
            "percentunit",
            most=1,
        ),
    )


def _failures() -> tuple[Panel, ...]:
    shown = (("retries", m.RETRIES, ORANGE), ("migrations", m.MIGRATIONS, RED), ("hedges", m.HEDGES, BLUE))
    requests = CHOSEN.observed(m.REQUEST_SECONDS)
    return (
        lines(
            "Submits again",
            "For each request: `retries` before the first token, `migrations` after it, `hedges` beside a slow one.",
            [Query(ratio(CHOSEN.rate(metric), requests), name) for name, metric, _ in shown],
            "percentunit",
            colors={name: color for name, _, color in shown},
        ),
        lines(
            "Faults",
            "What counted against a replica: an engine's error, a lost connection, a deadline while it stood still.",
            [Query(f"60 * {CHOSEN.rate(m.REPLICA_FAILURES, *_REPLICA)}", _NAMED)],
            "suffix: /min",
        ),
        lines(
            "Ejections in an hour",
            "How often a replica was left alone for a while in the hour before.",
            [Query(CHOSEN.over("1h").increase(m.REPLICA_EJECTIONS, *_REPLICA), _NAMED)],
            "short",
            thresholds=steps((3, RED)),
        ),
        lines(
            "Breaker",
            "For how long a replica still gets no requests.",
            [Query(CHOSEN.now(m.REPLICA_BREAKER, *_REPLICA, how="max"), _NAMED)],
            "s",
        ),
        lines(
            "Share of decisions",
            "The part of the decisions that may choose a replica: below 1 while it comes back.",
            [Query(CHOSEN.now(m.REPLICA_SHARE, *_REPLICA, how="min"), _NAMED)],
            "percentunit",
            most=1,
        ),
        lines(
            "Missing candidates",
            "Requests that were a candidate's by their split, and that the stable version answered.",
            [Query(f"60 * {CHOSEN.rate(m.VERSION_MISSED, 'model')}", "{{model}}")],
            "suffix: /min",
        ),
    )


def _sizes() -> tuple[Panel, ...]:
    return (
        heatmap(
            "Prompts",
            "Tokens of prompts, cached ones included. The redder, the more.",
            CHOSEN.heat(m.PROMPT_TOKENS),
            unit="short",
        ),
        heatmap("Answers", "Tokens of answers. The redder, the more.", CHOSEN.heat(m.ANSWER_TOKENS), unit="short"),
    )
