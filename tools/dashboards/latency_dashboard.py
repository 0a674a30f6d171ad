"""The latency dashboard: where the time of requests goes."""

from typing import Final

from observability.metrics import declarations as m
from observability.metrics.metric import Metric
from tools.dashboards.dashboard import CHOSEN, MODEL, POOL, Dashboard, Section
from tools.dashboards.objectives import Objectives
from tools.dashboards.panels import RED, Panel, Query, lines, steps
from tools.dashboards.percentiles import percentiles, spread

UID: Final = "penstock-latency"
_COLORS: Final = {"engine": "green", "queue": "#EAB839", "gateway": "blue"}


def latency(objectives: Objectives) -> Dashboard:
    """Make the latency dashboard."""
    return Dashboard(
        uid=UID,
        title="Penstock / Latency",
        description="Where the time of requests goes: queue, gateway, engine; and how even streams are.",
        variables=(MODEL, POOL),
        sections=(
            Section("Where the time goes", _breakdown()),
            Section("First token", _first_token(objectives)),
            Section("Streams", _streams()),
            Section("Queue and gateway", _gateway()),
            Section("Engine and whole requests", _whole_requests()),
        ),
    )


def _breakdown() -> tuple[Panel, ...]:
    engine, gateway, queue = (CHOSEN.mean(each) for each in (m.ENGINE_SECONDS, m.GATEWAY_SECONDS, m.QUEUE_SECONDS))
    return (
        lines(
            "Mean request, by where its time goes",
            "`engine`: from the submit to the last token. `queue`: waiting at the gateway for room, whatever pools are "
            "chosen. `gateway`: the rest of what passes before the submit and after the last token.",
            [
                Query(engine, "engine"),
                Query(queue, "queue"),
                Query(f"clamp_min(\n{gateway}\n-\n{queue}\n, 0)", "gateway"),
            ],
            "s",
            stacked=True,
            colors=_COLORS,
            width=12,
        ),
        lines(
            "Time to first token by pool",
            "95 of 100 streams begin within this time. Pools differ by their shapes and by what is sent to them.",
            [Query(CHOSEN.quantile(0.95, m.FIRST_TOKEN_SECONDS, "model", "pool"), "{{pool}} ({{model}})")],
            "s",
            width=12,
        ),
    )


def _first_token(objectives: Objectives) -> tuple[Panel, ...]:
    limit = steps((objectives.first_token_seconds, RED))
    return _pair(
        "Time to first token (TTFT)",
        "From a request's arrival to its first token, of streams.",
        m.FIRST_TOKEN_SECONDS,
        limit,
    )


def _streams() -> tuple[Panel, ...]:
    return (
        *_pair(
            "Between tokens (ITL)",
            "From one event with tokens to the next: what a reader sees stutter.",
            m.INTER_TOKEN_SECONDS,
        ),
        *_pair(
            "Time per output token (TPOT)",
            "Mean time for a token after the first, of each stream.",
            m.PER_TOKEN_SECONDS,
        ),
    )


def _gateway() -> tuple[Panel, ...]:
    by_tier = CHOSEN.quantile(0.95, m.QUEUE_SECONDS, "tier")
    return (
        *_pair("Queue", "From the reservation of limits to a request's turn.", m.QUEUE_SECONDS),
        *_pair(
            "Gateway",
            "The gateway's own part, waiting included: from arrival to the submit, and from the last token to the end.",
            m.GATEWAY_SECONDS,
        ),
        lines(
            "Queue by tier",
            "95 of 100 requests of a tier have their turn within this time.",
            [Query(by_tier, "{{tier}}")],
            "s",
            width=24,
        ),
    )


def _whole_requests() -> tuple[Panel, ...]:
    return (
        *_pair("Engine", "From the submit to the last token, the engine's own queue included.", m.ENGINE_SECONDS),
        *_pair("Whole requests", "From arrival to the end of the answer; long answers take long.", m.REQUEST_SECONDS),
    )


def _pair(title: str, description: str, metric: Metric, limit: dict[str, object] | None = None) -> tuple[Panel, Panel]:
    """Make two panels: percentiles and, beside them, the whole distribution."""
    return (
        percentiles(title, description, CHOSEN, metric, thresholds=limit, width=12),
        spread(f"{title}, all of it", description, CHOSEN, metric),
    )
