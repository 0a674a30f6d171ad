"""Reads use and limits from the store, for the admin API and the command line."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec import Meta

from gateway.config.models.price import NANO
from gateway.store.lua_script import Script
from gateway.tenancy.limits.limit_scripts import STATE, USAGE, base_key
from protos.errors import StoreUnavailable

#: The dimensions by which use can be grouped.
DIMENSIONS: Final = ("tenant", "model", "key", "day")
#: Retention of use by the hour, and by the day.
HOURS_KEPT: Final = timedelta(days=7)
DAYS_KEPT: Final = timedelta(days=400)
#: Hours or days of all tenants that one round trip reads, which takes the store some 20 ms.
_SPANS_AT_ONCE: Final = 20_000
_USES: Final = msgspec.msgpack.Decoder(list[tuple[int, str, list[int]]])


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

    async def run_many(self, script: Script, calls: Sequence[tuple[str, bytes]]) -> list[bytes | StoreUnavailable]:
        """Run a script for each (key, argument) in one round trip."""

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
    hours, days = spans_of(now, since)
    asked = msgspec.msgpack.encode((hours.start, hours.stop - 1, days.start, days.stop - 1))
    at_once = max(1, _SPANS_AT_ONCE // (len(hours) + len(days)))
    by_tenant, by_model, by_key, by_day = (name in by for name in DIMENSIONS)
    sums: dict[tuple[str | None, ...], list[int]] = {}
    for start in range(0, len(tenants), at_once):
        batch = tenants[start : start + at_once]
        replies = await store.run_many(USAGE, [(base_key(tenant), asked) for tenant in batch])
        for tenant, reply in zip(batch, replies, strict=True):
            if isinstance(reply, StoreUnavailable):
                raise reply
            for day, name, counts in _unpack(reply):
                model, _, key = name.partition("\0")
                row = (
                    tenant if by_tenant else None,
                    model if by_model else None,
                    key if by_key else None,
                    _date(day) if by_day else None,
                )
                before = sums.get(row)
                sums[row] = counts if before is None else [a + b for a, b in zip(before, counts, strict=True)]
    return [_row(names, counts) for names, counts in sorted(sums.items(), key=lambda item: [n or "" for n in item[0]])]


def spans_of(now: float, since: timedelta) -> tuple[range, range]:
    """Return the hours and the days to read, counted from 1970: whole days are read as such, which are fewer.

    The two do not overlap. `now` is in seconds since the epoch.
    """
    hour, day, begin = int(now // 3600), int(now // 86400), now - since.total_seconds()
    if since > HOURS_KEPT:
        return range(0), range(int(begin // 86400), day + 1)
    first_hour = int(begin // 3600)
    first_day = -(-first_hour // 24)
    return range(first_hour, min(24 * first_day, hour + 1)), range(first_day, day + 1)


@lru_cache(maxsize=DAYS_KEPT.days + 1)
def _date(day: int) -> str:
    return datetime.fromtimestamp(day * 86400, UTC).strftime("%Y-%m-%d")


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


def _unpack(packed: bytes) -> list[tuple[int, str, list[int]]]:
    try:
        return _USES.decode(packed)
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
