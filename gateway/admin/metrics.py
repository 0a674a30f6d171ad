"""Metrics of what the store knows of limits and budgets: the same whichever machine answers."""

from typing import Final

from gateway.admin.limits import ScopeLimits, limits_of, tenant_scopes
from gateway.admin.operation import Call, NoQuery, Operation
from observability.exposition import Family, exposition

#: Series are bounded: keys have none of their own, and so many tenants by name are shown.
MOST_TENANTS: Final = 1000


async def get_metrics(call: Call[NoQuery, None]) -> str:
    """The limits of tenants and of their models, as a scrape."""
    entries = [entry.tenant for entry in await call.service.registry.tenants()]
    limited = [scopes for tenant in entries if (scopes := list(tenant_scopes(tenant)))]
    shown = [scope for scopes in limited[:MOST_TENANTS] for scope in scopes]
    return exposition(_families(await limits_of(call.service, shown), max(0, len(limited) - MOST_TENANTS)))


def _families(found: list[ScopeLimits], left_out: int) -> list[Family]:
    limit = Family("penstock_limit", "gauge", "A limit, by its name in the tenant's record.")
    used = Family("penstock_limit_used", "gauge", "Its use in the last 60 seconds; of concurrency, now.")
    refused = Family("penstock_limit_refusals_total", "counter", "Requests that the limit refused.")
    in_flight = Family("penstock_limited_requests_in_flight", "gauge", "Requests under way or waiting.")
    budget = Family("penstock_budget_usd", "gauge", "A budget, in US dollars for its period.")
    spent = Family("penstock_budget_spent_usd", "gauge", "What is spent of it in the period under way.")
    reserved = Family("penstock_budget_reserved_usd", "gauge", "What requests under way are expected to cost.")
    alerts = Family("penstock_budget_alerts_passed", "gauge", "Alerts of the budget that the period has had.")
    hidden = Family("penstock_tenants_left_out", "gauge", "Tenants with limits beyond those that are shown.")
    for scope in found:
        of = {"tenant": scope.tenant, "scope": scope.scope}
        if scope.in_flight is not None:
            in_flight.add(scope.in_flight, **of)
        for one in scope.limits:
            limit.add(one.limit, **of, limit=one.name)
            used.add(one.used, **of, limit=one.name)
            refused.add(one.refused, **of, limit=one.name)
        if scope.budget is not None:
            money = {**of, "period": "day" if len(scope.budget.period) > len("2026-11") else "month"}
            budget.add(scope.budget.limit_usd, **money)
            spent.add(scope.budget.spent_usd, **money)
            reserved.add(scope.budget.reserved_usd, **money)
            alerts.add(len(scope.budget.alerts_passed), **money)
            refused.add(scope.budget.refused, **of, limit="budget")
    hidden.add(left_out)
    return [limit, used, refused, in_flight, budget, spent, reserved, alerts, hidden]


OPERATIONS: Final = (
    Operation(
        "GET",
        "/metrics",
        "getMetrics",
        "What limits and budgets of tenants and models hold, in Prometheus' text format",
        get_metrics,
        str,
    ),
)
