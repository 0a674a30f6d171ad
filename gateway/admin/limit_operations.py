"""Read what every limit holds now: the records of tenants and keys joined with the store's counts."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from gateway.admin.admin_paging import Page, PageQuery, page_of
from gateway.admin.operation import Call, Operation, Service
from gateway.config.base import Record
from gateway.config.tenants import Limits, Tenant
from gateway.tenancy.limits.usage_reading import BudgetState, ReadingStore, ScopeState, TenantState, tenant_state
from protos.errors import TenantNotFound

#: Each limit's name in the records, and the `code` of its error.
_CODES: Final = {
    "rpm": "requests_per_minute",
    "tpm": "tokens_per_minute",
    "input_tpm": "input_tokens_per_minute",
    "output_tpm": "output_tokens_per_minute",
    "concurrency": "concurrent_requests",
}
#: Tenants whose state is read at one time.
_AT_ONCE: Final = 16


class LimitUse(Record, frozen=True, kw_only=True):
    """The state of one limit."""

    name: Annotated[str, Meta(description="As the records have it: `rpm`, `tpm` and so on, or `concurrency`.")]
    limit: int
    used: Annotated[int, Meta(description="Of the last 60 seconds, what running requests may still use included.")]
    remaining: int
    refused: Annotated[int, Meta(description="Requests that it has refused so far.")]


class BudgetUse(Record, frozen=True, kw_only=True):
    """The state of a budget in its current period."""

    period: Annotated[str, Meta(description="As `2026-11`, or `2026-11-21`.")]
    limit_usd: float
    spent_usd: float
    reserved_usd: Annotated[float, Meta(description="What requests under way are expected to cost.")]
    remaining_usd: Annotated[float, Meta(description="What is neither spent nor reserved.")]
    alerts_passed: Annotated[list[int], Meta(description="The percentages announced so far, by what is spent.")]
    resets_in_seconds: float
    refused: Annotated[int, Meta(description="Requests that it has refused so far.")]


class ScopeLimits(Record, frozen=True, kw_only=True):
    """The limits of one scope. Scopes without limits are not counted and not listed."""

    object: Literal["limits"] = "limits"
    tenant: str
    scope: Annotated[str, Meta(description="`tenant`, `key:ID` or `model:NAME`.")]
    in_flight: Annotated[
        int | None, Meta(description="Requests under way or waiting; null where there is only a budget.")
    ]
    limits: list[LimitUse]
    budget: BudgetUse | None


class LimitsQuery(PageQuery, frozen=True, kw_only=True):
    """Query parameters: whose limits."""

    tenant: Annotated[
        Annotated[str, Meta(min_length=1)] | None, Meta(description="Only this tenant's, its keys' and its models'.")
    ] = None


@dataclass(frozen=True, slots=True)
class Scope:
    """The limits of a record, and whose they are."""

    tenant: str
    name: str
    limits: Limits

    @property
    def sort_key(self) -> tuple[str, str]:
        """Return the scope's position in a list."""
        return (self.tenant, self.name)


async def list_limits(call: Call[LimitsQuery, None]) -> Page[ScopeLimits]:
    """List the limits of tenants, keys and models."""
    scopes = await _scopes(call.service, call.query.tenant)
    page = page_of(scopes, call.query, lambda scope: scope.sort_key, tuple[str, str])
    return Page(data=await limits_of(call.service.store, page.data), has_more=page.has_more, next=page.next)


async def limits_of(store: ReadingStore, scopes: Sequence[Scope]) -> list[ScopeLimits]:
    """Return what scopes hold, in their order, which is by tenant.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    turns = asyncio.Semaphore(_AT_ONCE)

    async def state(name: str, group: list[Scope]) -> list[ScopeLimits]:
        budgets = [(scope.name, scope.limits.budget.period) for scope in group if scope.limits.budget is not None]
        async with turns:
            found = await tenant_state(store, name, [scope.name for scope in group], budgets)
        return list(_joined(group, found))

    groups = [(name, list(group)) for name, group in groupby(scopes, key=lambda scope: scope.tenant)]
    return [joined for part in await asyncio.gather(*(state(*group) for group in groups)) for joined in part]


def tenant_scopes(tenant: Tenant) -> Iterator[Scope]:
    """List a tenant's scopes that have limits: its own, and those of its models."""
    if _counted(tenant.limits):
        yield Scope(tenant.name, "tenant", tenant.limits)
    for model, limits in tenant.model_limits.items():
        if _counted(limits):
            yield Scope(tenant.name, f"model:{model}", limits)


async def _scopes(service: Service, tenant: str | None) -> list[Scope]:
    """List every scope with limits, sorted; expired and revoked keys hold nothing."""
    if tenant is None:
        entries = await service.registry.tenants()
    else:
        entries = [await _tenant(service, tenant)]
    now = await service.store.now()
    keys = await service.registry.keys(tenant)
    scopes = [scope for entry in entries for scope in tenant_scopes(entry.tenant)]
    # A key and its replacement count as one; the newer key's limits are those that will stay.
    lines = {key.limit_scope: Scope(key.tenant, key.limit_scope, key.limits) for key in keys if key.active(now)}
    scopes += [scope for scope in lines.values() if _counted(scope.limits)]
    return sorted(scopes, key=lambda scope: scope.sort_key)


async def _tenant(service: Service, name: str) -> Any:
    try:
        return await service.registry.tenant(name)
    except TenantNotFound as error:
        error.param = "tenant"
        raise


def _counted(limits: Limits) -> bool:
    return limits.budget is not None or any(getattr(limits, name) is not None for name in _CODES)


def _joined(scopes: list[Scope], state: TenantState) -> Iterator[ScopeLimits]:
    budgets = {budget.scope: budget for budget in state.budgets}
    for scope, counted in zip(scopes, state.scopes, strict=True):
        uses = []
        for name, used in _used(counted).items():
            limit = getattr(scope.limits, name)
            if limit is not None:
                refused = state.refused.get(f"{scope.name}|{_CODES[name]}", 0)
                uses.append(
                    LimitUse(name=name, limit=limit, used=used, remaining=max(0, limit - used), refused=refused)
                )
        budget = _budget(scope, budgets.get(scope.name), state)
        in_flight = counted.in_flight if uses else None
        yield ScopeLimits(tenant=scope.tenant, scope=scope.name, in_flight=in_flight, limits=uses, budget=budget)


def _used(counted: ScopeState) -> dict[str, int]:
    return {
        "rpm": counted.requests,
        "tpm": counted.input_tokens + counted.output_tokens,
        "input_tpm": counted.input_tokens,
        "output_tpm": counted.output_tokens,
        "concurrency": counted.in_flight,
    }


def _budget(scope: Scope, state: BudgetState | None, tenant: TenantState) -> BudgetUse | None:
    budget = scope.limits.budget
    if budget is None or state is None:
        return None
    return BudgetUse(
        period=state.period,
        limit_usd=budget.usd,
        spent_usd=state.spent_usd,
        reserved_usd=state.reserved_usd,
        remaining_usd=round(max(0.0, budget.usd - state.spent_usd - state.reserved_usd), 6),
        alerts_passed=sorted(share for share in budget.alerts if state.spent_usd >= share * budget.usd / 100),
        resets_in_seconds=state.seconds_left,
        refused=sum(tenant.refused.get(f"{scope.name}|{code}", 0) for code in ("budget", "budget_in_use")),
    )


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/limits",
        "listLimits",
        "What every limit and budget holds now, by tenant and scope",
        list_limits,
        Page[ScopeLimits],
        LimitsQuery,
        errors=(TenantNotFound,),
    ),
)
