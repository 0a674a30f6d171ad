"""The tenants dashboard: each tenant's usage, cost and distance to its limits."""

from typing import Final

from observability.metrics import declarations as m
from tools.dashboards.dashboard import CHOSEN_TENANTS, MODEL, TENANT, Dashboard, Section
from tools.dashboards.dashboard_kinds import FAILURES, TOKEN_COLORS
from tools.dashboards.dashboard_tables import Column, table
from tools.dashboards.panels import GREEN, ORANGE, RED, YELLOW, Json, Panel, Query, gauges, lines, steps
from tools.dashboards.promql import WHOLE_RANGE, ratio, share

UID: Final = "penstock-tenants"
_LIMIT: Final = ("tenant", "scope", "limit")
_BUDGET: Final = ("tenant", "scope", "period")
_FULL: Final[Json] = steps((0.7, YELLOW), (0.9, ORANGE), (1, RED), base=GREEN)
_NAMED: Final = "{{tenant}} {{scope}} {{limit}}"


def tenants() -> Dashboard:
    """Make the tenants dashboard."""
    return Dashboard(
        uid=UID,
        title="Penstock / Tenants",
        description="Who uses what, what it costs, and how near to limits and budgets they are.",
        variables=(MODEL, TENANT),
        sections=(
            Section("Use", (_use(), *_over_time())),
            Section("Cost and cache", _cost()),
            Section("Limits", _limits()),
            Section("Budgets", _budgets()),
        ),
        hours=6,
    )


def _use() -> Panel:
    shown = CHOSEN_TENANTS.over(WHOLE_RANGE)
    requests = shown.increase(m.REQUESTS, "tenant")
    red = steps((1, RED), base="text")

    def tokens(*kinds: str) -> str:
        return shown.increase(m.TOKENS, "tenant", kind=kinds)

    return table(
        "Use of each tenant",
        "Sums over the time that is shown, as Prometheus counts them; `penstock usage` has the booked figures. Tenants "
        "beyond those with series of their own are `other`.",
        {"tenant": "Tenant"},
        [
            Column("Requests", requests),
            Column("Failed", shown.increase(m.REQUESTS, "tenant", outcome=FAILURES), colors=red),
            Column(
                "Limited",
                shown.increase(m.REQUESTS, "tenant", outcome="limited"),
                colors=steps((1, ORANGE), base="text"),
            ),
            Column("Input tokens", tokens("input", "cached")),
            Column("of them cached", ratio(tokens("cached"), tokens("input", "cached")), "percentunit", bar=True),
            Column("Output tokens", tokens("output", "reasoning")),
            Column("Rejected tokens", tokens("rejected")),
            Column("Cost", shown.increase(m.COST, "tenant"), "currencyUSD"),
        ],
        sort_by="Requests",
        link=("tenant", "Only this tenant", f"/d/{UID}?${{__url_time_range}}&var-tenant=${{__value.raw}}"),
    )


def _over_time() -> tuple[Panel, ...]:
    return (
        lines(
            "Requests by tenant",
            "Requests that ended, a second.",
            [Query(CHOSEN_TENANTS.rate(m.REQUESTS, "tenant"), "{{tenant}}")],
            "reqps",
            stacked=True,
        ),
        lines(
            "Tokens by tenant",
            "Input and output, cached input included.",
            [
                Query(
                    CHOSEN_TENANTS.rate(m.TOKENS, "tenant", kind=("input", "cached", "output", "reasoning")),
                    "{{tenant}}",
                )
            ],
            "suffix: tok/s",
            stacked=True,
        ),
        lines(
            "Tokens by kind",
            "Of the chosen tenants. `rejected` was asked for and refused by a limit, a filter or the queue.",
            [Query(CHOSEN_TENANTS.rate(m.TOKENS, "kind"), "{{kind}}")],
            "suffix: tok/s",
            stacked=True,
            colors=TOKEN_COLORS,
        ),
    )


def _cost() -> tuple[Panel, ...]:
    cached = CHOSEN_TENANTS.rate(m.TOKENS, "tenant", kind="cached")
    prompts = CHOSEN_TENANTS.rate(m.TOKENS, "tenant", kind=("input", "cached"))
    return (
        lines(
            "Cost an hour by tenant",
            "What an hour at this pace costs, by the prices of the configuration.",
            [Query(f"3600 * {CHOSEN_TENANTS.rate(m.COST, 'tenant')}", "{{tenant}}")],
            "currencyUSD",
            stacked=True,
        ),
        lines(
            "Cost an hour by model",
            "The same of the chosen tenants together, by model.",
            [Query(f"3600 * {CHOSEN_TENANTS.rate(m.COST, 'model')}", "{{model}}")],
            "currencyUSD",
            stacked=True,
        ),
        lines(
            "Prompt tokens from the cache",
            "The part of a tenant's prompt tokens that engines had in their KV cache: cheaper and faster.",
            [Query(ratio(cached, prompts), "{{tenant}}")],
            "percentunit",
            most=1,
        ),
    )


def _limits() -> tuple[Panel, ...]:
    used = CHOSEN_TENANTS.now(m.LIMIT_USED, *_LIMIT, how="max")
    limit = CHOSEN_TENANTS.now(m.LIMIT, *_LIMIT, how="max")
    return (
        gauges(
            "Limits in use",
            "The last 60 seconds against each limit; of concurrency, now. `scope` is the tenant or one of its models.",
            Query(share(used, limit), _NAMED),
            "percentunit",
            thresholds=_FULL,
        ),
        lines(
            "Refused by limits",
            "Requests that a limit refused with 429, a second.",
            [Query(CHOSEN_TENANTS.rate(m.LIMIT_REFUSALS, *_LIMIT), _NAMED)],
            "reqps",
            width=6,
        ),
        lines(
            "Requests under way",
            "Requests of tenants with limits that run or wait.",
            [Query(CHOSEN_TENANTS.now(m.LIMITED_IN_FLIGHT, "tenant", "scope", how="max"), "{{tenant}} {{scope}}")],
            "short",
            width=6,
        ),
    )


def _budgets() -> tuple[Panel, ...]:
    limit = CHOSEN_TENANTS.now(m.BUDGET, *_BUDGET, how="max")
    spent = CHOSEN_TENANTS.now(m.BUDGET_SPENT, *_BUDGET, how="max")
    reserved = CHOSEN_TENANTS.now(m.BUDGET_RESERVED, *_BUDGET, how="max")
    alerts = CHOSEN_TENANTS.now(m.BUDGET_ALERTS, *_BUDGET, how="max")
    return (
        gauges(
            "Budgets spent",
            "What is spent of each budget in the period under way.",
            Query(share(spent, limit), "{{tenant}} {{scope}} ({{period}})"),
            "percentunit",
            thresholds=_FULL,
        ),
        table(
            "Budgets",
            "`Reserved` is what requests under way are expected to cost.",
            {"tenant": "Tenant", "scope": "Scope", "period": "Period"},
            [
                Column("Budget", limit, "currencyUSD"),
                Column("Spent", spent, "currencyUSD"),
                Column("Reserved", reserved, "currencyUSD"),
                Column("Alerts", alerts),
            ],
            sort_by="Spent",
            width=12,
            height=8,
        ),
    )
