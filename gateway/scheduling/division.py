"""Division of a fleet among the tenants of one model: activity, shares, lanes and use."""

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Protocol

import msgspec

from gateway.scheduling.capacity import ALLOWANCE_TOKENS, Demand, Reserve, use_of
from gateway.scheduling.shares import ActiveTenant, heavy_parts, lanes, shares
from gateway.tenancy.tenants.caller import is_background
from protos.types import Role
from routing.contracts.policy import ReplicaView

#: Seconds for which a tenant counts as active, and as heavy, after it last was.
ACTIVE_SECONDS = 10.0
#: Maximum age of a division, in seconds. A missing replica makes it stale at once, as does a missing tenant, unless
#: so many are active that one more makes little difference. A surplus replica does not: those that recover from a
#: fault are candidates only now and then.
DIVISION_SECONDS = 0.5
MANY_TENANTS = 64
#: Admissions on one reading of the fleet's utilization at most; each load report begins a new reading.
ADMISSIONS_PER_READING = 32


class Prefill(Protocol):
    """A prompt that is sent to a replica and has no first token yet."""

    prefill_at: str
    prefill_tokens: int


class TenantUse:
    """One tenant's requests in this worker, and when it was last seen."""

    __slots__ = (
        "admitted",
        "background",
        "computing",
        "cost",
        "heavy_until",
        "name",
        "prefill_tokens",
        "rank",
        "reserved",
        "seen",
        "waiting",
        "weight",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.background = is_background(name)
        self.rank = 0
        self.weight = 1.0
        self.reserved = 0.0
        #: Cost and number of admitted requests, and number of waiting ones.
        self.cost = 0
        self.admitted = 0
        self.waiting = 0
        self.seen = 0.0
        self.heavy_until = 0.0
        #: Prompts without a first token, and all their tokens.
        self.computing: set[Prefill] = set()
        self.prefill_tokens = 0

    @property
    def prefill(self) -> dict[str, int]:
        """Tokens of prompts without a first token, by replica."""
        found: dict[str, int] = {}
        for prompt in self.computing:
            found[prompt.prefill_at] = found.get(prompt.prefill_at, 0) + prompt.prefill_tokens
        return found

    def prefill_outside(self, lanes: frozenset[str]) -> int:
        """Tokens of prompts without a first token on replicas outside these lanes."""
        return sum(prompt.prefill_tokens for prompt in self.computing if prompt.prefill_at not in lanes)


class Division(msgspec.Struct, frozen=True):
    """A division with its expiry; it `is_shared` by several tenants.

    Only heavy tenants have lanes, and only beside others; `avoid` is the union of all lanes.
    """

    until: float
    replicas: int
    active: tuple[ActiveTenant, ...]
    shares: dict[str, float]
    lanes: dict[str, frozenset[str]]
    avoid: frozenset[str]
    most_withheld: float
    is_shared: bool = False


_NO_DIVISION = Division(0.0, 0, (), {}, {}, frozenset(), 0.0)


class Divider:
    """Tracks each tenant's use and recomputes the division when it is stale."""

    def __init__(self, watermark: float) -> None:
        self.elsewhere: Sequence[ActiveTenant] = ()
        self._watermark = watermark
        self._tenants: dict[str, TenantUse] = {}
        self._division = _NO_DIVISION
        #: The fleet's utilization as last read; None: a load was reported since, and it must be read again.
        self.use: float | None = None
        self._reserve: Reserve | None = None
        self._admissions = 0

    @property
    def foreground(self) -> int:
        """Number of admitted requests, except background ones."""
        return sum(tenant.admitted for tenant in self._tenants.values() if not tenant.background)

    def hypothetical(self, name: str) -> "Divider":
        """A copy for questions about this tenant; changes to that tenant do not affect the original."""
        hypothetical = copy(self)
        hypothetical._tenants = dict(self._tenants)
        if name in self._tenants:
            hypothetical._tenants[name] = copy(self._tenants[name])
        return hypothetical

    def seen(self, name: str, rank: int, weight: float, reserved: float, now: float) -> TenantUse:
        """Note a tenant's request and its current tier."""
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = TenantUse(name)
        tenant.rank, tenant.weight, tenant.reserved, tenant.seen = rank, weight, reserved, now
        return tenant

    def division(self, tenant: TenantUse, demand: Demand, views: Sequence[ReplicaView], now: float) -> Division:
        """The current division, with this tenant among the active ones, for one more demand of it.

        A tenant that wants more prompts computed than its allowance is heavy for a while.
        """
        tokens = demand.least_prompt_tokens if demand.cached else demand.whole.prompt_tokens
        if tenant.prefill_tokens + tokens > ALLOWANCE_TOKENS:
            if tenant.heavy_until <= now:
                self._division = _NO_DIVISION
            tenant.heavy_until = now + ACTIVE_SECONDS
        division = self._division
        if (
            now >= division.until
            or division.replicas < len(views)
            or (tenant.name not in division.shares and not tenant.background and len(division.active) < MANY_TENANTS)
        ):
            division = self._division = self._divide(views, now)
            self._reserve = None
        return division

    def request_admitted(self, tenant: TenantUse, cost: int) -> None:
        """Count an admitted request."""
        tenant.cost += cost
        tenant.admitted += 1
        if self.use is not None:
            self._admissions += 1
            if self._admissions >= ADMISSIONS_PER_READING:
                self.use = None

    def request_ended(self, tenant: TenantUse, cost: int, now: float) -> None:
        """Discount an admitted request that has ended: there is more room now."""
        tenant.cost -= cost
        tenant.admitted -= 1
        tenant.seen = now
        self.use = None

    def has_room(self, tenant: TenantUse, division: Division, views: Sequence[ReplicaView]) -> bool:
        """Whether the tenant may fill more of the fleet, given what others have reserved.

        Background tenants always may: they are admitted only where others leave room.
        """
        if tenant.background:
            return True
        if self.use is None:
            self.use, self._reserve, self._admissions = use_of(views), None, 0
        use = self.use
        if use < self._watermark * (1.0 - division.most_withheld):
            return True
        if self._reserve is None:
            whole = sum(other.cost for other in self._tenants.values()) or 1
            used = {name: use * other.cost / whole for name, other in self._tenants.items()}
            self._reserve = Reserve(division.active, division.shares, used)
        withheld = self._reserve.withheld_from(tenant.name, tenant.rank)
        return not withheld or use < self._watermark * (1.0 - withheld)

    def active_here(self, now: float) -> list[ActiveTenant]:
        """The active tenants that this worker knows of; forgets the others.

        Background tenants have no share of the fleet, and do not reduce others' shares.
        """
        self._tenants = {
            name: tenant
            for name, tenant in self._tenants.items()
            if tenant.admitted or tenant.waiting or now - tenant.seen < ACTIVE_SECONDS
        }
        return [
            ActiveTenant(name, tenant.rank, tenant.weight, tenant.reserved, now < tenant.heavy_until)
            for name, tenant in self._tenants.items()
            if not tenant.background
        ]

    def _divide(self, views: Sequence[ReplicaView], now: float) -> Division:
        active = tuple(sorted(merged([*self.elsewhere, *self.active_here(now)]), key=lambda tenant: tenant.name))
        found: dict[str, frozenset[str]] = {}
        if len(active) > 1:
            light = any(not tenant.heavy for tenant in active)
            computing = [(view.id, view.shape.gpus) for view in views if view.role is not Role.DECODE]
            found = lanes(heavy_parts(active), computing, spare=light)
        reserved = sum({tenant.rank: tenant.reserved for tenant in active}.values())
        return Division(
            until=now + DIVISION_SECONDS,
            replicas=len(views),
            active=active,
            shares=shares(active),
            lanes=found,
            avoid=frozenset().union(*found.values()),
            most_withheld=min(Reserve.MOST, max(reserved, Reserve.SPARE)) if len(active) > 1 else 0.0,
            is_shared=len(active) > 1,
        )


def merged(records: Iterable[ActiveTenant]) -> Iterable[ActiveTenant]:
    """One record for each tenant: the last one, marked heavy if any of its records is."""
    found: dict[str, ActiveTenant] = {}
    for record in records:
        before = found.get(record.name)
        if before is not None and before.heavy and not record.heavy:
            record = msgspec.structs.replace(record, heavy=True)  # noqa: PLW2901
        found[record.name] = record
    return found.values()
