"""Read usage, for the admin API and `penstock usage` alike: the same parameters, checks and rows."""

import re
from datetime import timedelta
from typing import Annotated, Final, Literal

from msgspec import Meta

from gateway.admin.admin_paging import Page, PageQuery, page_of
from gateway.admin.operation import Call, Operation
from gateway.tenancy.limits.usage_reading import DAYS_KEPT, DIMENSIONS, ReadingStore, UsageRow, usage
from gateway.tenancy.tenants.tenant_registry import Registry
from protos.errors import InvalidRequest, TenantNotFound

BY: Final = "tenant,model"
SINCE: Final = "7d"

_DURATION: Final = re.compile(r"([0-9]{1,9})([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class UsageQuery(PageQuery, frozen=True, kw_only=True):
    """Query parameters of usage: which usage, and how it is grouped."""

    by: Annotated[str, Meta(description="What rows are told apart by, of `tenant`, `model`, `key` and `day`.")] = BY
    since: Annotated[
        str,
        Meta(
            description="How far back: `30m`, `24h`, `7d`, `4w`. Up to 7 days from the beginning of an hour, beyond "
            "from the beginning of a day (UTC); 400 days are kept."
        ),
    ] = SINCE
    tenant: Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description="Only this tenant's use.")] = None


class UsageView(UsageRow, frozen=True, kw_only=True):
    """One row of usage."""

    object: Literal["usage"] = "usage"


async def usage_rows(
    registry: Registry, store: ReadingStore, by: str, since: str, tenant: str | None = None
) -> list[UsageRow]:
    """Return usage since a duration ago, in rows sorted by the dimensions of `by`.

    Raises:
        InvalidRequest: `by` or `since` cannot be read; `param` says which.
        TenantNotFound: There is no such tenant, nor any usage by one.
        StoreUnavailable: The store did not answer.
    """
    dimensions, span = _dimensions(by), _duration(since)
    if tenant is None:
        # A deleted tenant leaves its keys and its usage behind.
        names = {entry.tenant.name for entry in await registry.tenants()}
        names |= {key.tenant for key in await registry.keys()}
        return await usage(store, sorted(names), dimensions, span)
    rows = await usage(store, [tenant], dimensions, span)
    if not rows:
        try:
            await registry.tenant(tenant)
        except TenantNotFound as error:
            error.param = "tenant"
            raise
    return rows


async def get_usage(call: Call[UsageQuery, None]) -> Page[UsageView]:
    """Return rows of usage."""
    query = call.query
    rows = await usage_rows(call.service.registry, call.service.store, query.by, query.since, query.tenant)
    views = [UsageView(**{name: getattr(row, name) for name in UsageRow.__struct_fields__}) for row in rows]
    return page_of(views, query, _sort_key, tuple[str, str, str, str])


def _sort_key(row: UsageRow) -> tuple[str, str, str, str]:
    return (row.tenant or "", row.model or "", row.key or "", row.day or "")


def _dimensions(by: str) -> list[str]:
    names = [name.strip() for name in by.split(",")]
    for index, name in enumerate(names):
        if name not in DIMENSIONS:
            raise InvalidRequest(f"by: expected some of {', '.join(DIMENSIONS)}, got {name[:64]!r}", param="by")
        if name in names[:index]:
            raise InvalidRequest(f"by: {name} is named twice", param="by")
    return names


def _duration(since: str) -> timedelta:
    match = _DURATION.fullmatch(since)
    if match is None:
        raise InvalidRequest(f"since: expected a time such as 30m, 24h, 7d or 4w, got {since[:64]!r}", param="since")
    # Compared as a number first: timedelta has bounds of its own.
    count, unit = int(match[1]), timedelta(**{_UNITS[match[2]]: 1})
    if not 0 < count <= DAYS_KEPT / unit:
        raise InvalidRequest(f"since: expected more than 0 and at most {DAYS_KEPT.days}d, got {since}", param="since")
    return count * unit


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/usage",
        "getUsage",
        "Requests, tokens and cost, and what limits refused",
        get_usage,
        Page[UsageView],
        UsageQuery,
        errors=(InvalidRequest, TenantNotFound),
    ),
)
