"""The limits of one caller's requests to one model, encoded for the store."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from gateway.config.models.price import NANO, Price
from gateway.config.tenants import Limits, Tenant
from gateway.tenancy.auth.key_records import ApiKey

_UNLIMITED = Limits()
_PERIODS = {"day": 1, "month": 2}


@dataclass(frozen=True, slots=True)
class Scope:
    """Limits that several requests share; 0 means no limit.

    `name` is `tenant`, `key:ID` (the first key of its line of rotations) or `model:NAME`.
    """

    name: str
    requests: int
    tokens: int
    input_tokens: int
    output_tokens: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """A scope's budget in nanodollars; `period` is 1 for a day, 2 for a month."""

    scope: str
    period: int
    limit: int
    alerts: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A caller's scopes for one model. `encoded` is the plan as gateway/tenancy/limits/lua/batch.lua reads it.

    A plan without scopes and budgets is not `metered`: its requests need no reservation.
    """

    tenant: str
    model: str
    key_id: str
    scopes: tuple[Scope, ...]
    budgets: tuple[BudgetPlan, ...]
    price: Price
    fail_open: bool
    digest: str
    encoded: msgspec.Raw
    metered: bool


class Holder(Protocol):
    """A key with its tenant (gateway/tenancy/tenants/caller.py)."""

    @property
    def key(self) -> ApiKey:
        """The key."""
        ...

    @property
    def tenant(self) -> Tenant:
        """The key's tenant."""
        ...


def plan_for(caller: Holder, model: str, price: Price) -> Plan:
    """Make the plan of a caller's requests to a model: the tenant's limits, those for the model, and the key's own."""
    tenant, key = caller.tenant, caller.key
    bounds = [("tenant", tenant.limits), (key.limit_scope, key.limits)]
    if model in tenant.model_limits:
        bounds.append((f"model:{model}", tenant.model_limits[model]))
    scopes = tuple(scope for name, limits in bounds if (scope := _scope(name, limits)) is not None)
    budgets = tuple(_budgets(bounds))
    cached = price.input if price.cached_input is None else price.cached_input
    content = [
        model,
        key.key_id,
        [[s.name, s.requests, s.tokens, s.input_tokens, s.output_tokens, s.concurrency] for s in scopes],
        [[b.scope, b.period, b.limit, b.alerts] for b in budgets],
        [1000 * price.input, 1000 * cached, 1000 * price.output],
    ]
    digest = hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest()[:16]
    encoded = msgspec.Raw(msgspec.msgpack.encode([*content, digest]))
    return Plan(
        tenant=tenant.name,
        model=model,
        key_id=key.key_id,
        scopes=scopes,
        budgets=budgets,
        price=price,
        fail_open=tenant.on_store_failure == "fail_open",
        digest=digest,
        encoded=encoded,
        metered=bool(scopes or budgets),
    )


def is_limited(tenant: Tenant, model: str) -> bool:
    """Whether the tenant's requests to the model need a reservation, whatever their keys' own limits are."""
    bounds = [("", tenant.limits), ("", tenant.model_limits.get(model, _UNLIMITED))]
    return any(_scope(*each) is not None for each in bounds) or any(_budgets(bounds))


def _scope(name: str, limits: Limits) -> Scope | None:
    values = (limits.rpm, limits.tpm, limits.input_tpm, limits.output_tpm, limits.concurrency)
    return Scope(name, *(value or 0 for value in values)) if any(values) else None


def _budgets(bounds: list[tuple[str, Limits]]) -> Iterator[BudgetPlan]:
    for name, limits in bounds:
        if limits.budget is not None:
            budget = limits.budget
            yield BudgetPlan(name, _PERIODS[budget.period], round(budget.usd * NANO), tuple(sorted(budget.alerts)))
