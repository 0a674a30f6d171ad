"""Reads use and limits from the store, for the admin API and the command line."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec import Meta

from gateway.config.models.price import NANO
from gateway.store.lua_script import Script
from gateway.tenancy.limits.limit_scripts import STATE, base_key
from protos.errors import StoreUnavailable

#: The dimensions by which use can be grouped.
DIMENSIONS: Final = ("tenant", "model", "key", "day")
#: Retention of use by the hour, and by the day.
HOURS_KEPT: Final = timedelta(days=7)
DAYS_KEPT: Final = timedelta(days=400)


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Use over a time, for what the row stands for; what it is not told apart by is null."""

    tenant: str | None = None
    model: str | None = None
    key: str | None = None
    day: Annotated[str | None, Meta(description="Calendar day, UTC.")] = None
    requests: int = 0
    input_tokens: int = 0
    cached_tokens: Annotated[int, Meta(description="Of the input tokens, found in a KV cache.")] = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    rejected_requests: int = 0
    rejected_tokens: Annotated[int, Meta(description="Input tokens of requests that a limit refused.")] = 0


class ScopeState(msgspec.Struct, frozen=True, kw_only=True):
    """The current counts of one scope's limits; `scope` is `tenant`, `key:ID` or `model:NAME`."""

    scope: str
    requests: Annotated[int, Meta(description="In the last minute.")]
    input_tokens: Annotated[int, Meta(description="In the last minute, those that requests under way may use too.")]
    output_tokens: Annotated[int, Meta(description="In the last minute, those that requests under way may use too.")]
    in_flight: Annotated[int, Meta(description="Requests under way or waiting.")]


class BudgetState(msgspec.Struct, frozen=True, kw_only=True):
    """Spending from one scope's budget in the current period."""

    scope: str
    period: Annotated[str, Meta(description="As `2026-11` or `2026-11-21`.")]
    spent_usd: float
    reserved_usd: Annotated[float, Meta(description="What requests under way are expected to cost.")]
    seconds_left: float


class TenantState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is counted for a tenant now. `refused` counts refusals by scope and limit, `SCOPE|LIMIT`."""

    tenant: str
    scopes: list[ScopeState]
    budgets: list[BudgetState]
    refused: dict[str, int]


class ReadingStore(Protocol):
    """The store operations for reading; every method raises StoreUnavailable."""

    async def hgetall_many(self, keys: Sequence[str]) -> list[dict[bytes, bytes]]: ...

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object: ...

    async def now(self) -> float:
        """The store's clock, seconds since the epoch."""


async def usage(store: ReadingStore, tenants: Sequence[str], by: Sequence[str], since: timedelta) -> list[UsageRow]:
    """Read the use of tenants in the time before now, one row for each combination of the dimensions in `by`.

    Up to HOURS_KEPT it goes back to the beginning of an hour, beyond to the beginning of a day.

    Raises:
        ValueError: `by` names something else than DIMENSIONS, or `since` is over DAYS_KEPT or not positive.
        StoreUnavailable: The store did not answer, or its records cannot be read.
    """
    unknown = next((name for name in by if name not in DIMENSIONS), None)
    if unknown is not None:
        raise ValueError(f"{unknown!r} is none of {', '.join(DIMENSIONS)}")
    if not timedelta() < since <= DAYS_KEPT:
        raise ValueError(f"use is kept for {DAYS_KEPT.days} days")
    now = await store.now()
    step, kind = (3600, "h") if since <= HOURS_KEPT else (86400, "d")
    spans = range(int((now - since.total_seconds()) // step), int(now // step) + 1)
    places = [(tenant, span) for tenant in tenants for span in spans]
    found = await store.hgetall_many([f"{base_key(tenant)}:usage:{kind}:{span}" for tenant, span in places])
    sums: dict[tuple[str | None, ...], list[int]] = {}
    for (tenant, span), fields in zip(places, found, strict=True):
        day = datetime.fromtimestamp(span * step, UTC).strftime("%Y-%m-%d")
        for name, packed in fields.items():
            model, _, key = name.decode().partition("\0")
            values = {"tenant": tenant, "model": model, "key": key, "day": day}
            row = tuple(values[dimension] if dimension in by else None for dimension in DIMENSIONS)
            counts = sums.setdefault(row, [0] * 7)
            for place, count in enumerate(_unpack(packed)):
                counts[place] += count
    return [_row(names, counts) for names, counts in sorted(sums.items(), key=lambda item: [n or "" for n in item[0]])]


async def tenant_state(
    store: ReadingStore, tenant: str, scopes: Sequence[str], budgets: Sequence[tuple[str, str]]
) -> TenantState:
    """Read the state of a tenant's scopes, and of its budgets as (scope, `day` or `month`).

    Raises:
        StoreUnavailable: The store did not answer.
    """
    asked = [(scope, 1 if period == "day" else 2) for scope, period in budgets]
    reply = await store.run(STATE, [base_key(tenant)], [msgspec.msgpack.encode((list(scopes), asked))])
    assert isinstance(reply, bytes)
    states, money, refused = msgspec.msgpack.decode(reply)
    return TenantState(
        tenant=tenant,
        scopes=[
            ScopeState(scope=name, requests=r, input_tokens=i, output_tokens=o, in_flight=leases)
            for name, (r, i, o, leases) in zip(scopes, states, strict=True)
        ],
        budgets=[
            BudgetState(
                scope=name,
                period=period,
                spent_usd=round(spent / NANO, 6),
                reserved_usd=round(reserved / NANO, 6),
                seconds_left=left / 1000,
            )
            for (name, _), (spent, reserved, period, left) in zip(budgets, money, strict=True)
        ],
        refused=dict(zip(refused[::2], map(int, refused[1::2]), strict=True)),
    )


def _unpack(packed: bytes) -> list[int]:
    try:
        return msgspec.msgpack.decode(packed, type=list[int])
    except msgspec.MsgspecError as error:
        raise StoreUnavailable("The gateway's store holds a record of use that cannot be read.") from error


def _row(names: tuple[str | None, ...], counts: list[int]) -> UsageRow:
    requests, given, cached, output, cost, rejected_requests, rejected_tokens = counts
    known: dict[str, Any] = dict(zip(DIMENSIONS, names, strict=True))
    return UsageRow(
        **known,
        requests=requests,
        input_tokens=given,
        cached_tokens=cached,
        output_tokens=output,
        cost_usd=round(cost / NANO, 6),
        rejected_requests=rejected_requests,
        rejected_tokens=rejected_tokens,
    )
