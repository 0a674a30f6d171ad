"""For whom a batch's requests are made: the key's owner as it is now, at the end of every queue."""

import asyncio

import msgspec
import pytest

from gateway.config.tenants import DEFAULT_TIERS, Tenant, Tier
from gateway.jobs.batches.callers import FRESH_SECONDS, Callers
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.tenants.caller import Caller, is_background
from protos.errors import AuthenticationFailed, KeyExpired, KeyNotFound, PenstockError, TenantGone

KEY = ApiKey(key_id="key_1", name="one", tenant="acme", created_at=1.0)


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.key: ApiKey | None = KEY
        self.tenant: Tenant | None = Tenant(name="acme", tier="gold")
        self.asked = 0
        self.callers = Callers(self, self, len(DEFAULT_TIERS), lambda: self.now)

    async def get(self, key_id: str) -> ApiKey:
        self.asked += 1
        if self.key is None:
            raise KeyNotFound("no")
        return self.key

    def find(self, name: str) -> tuple[Tenant, int, Tier] | None:
        return None if self.tenant is None else (self.tenant, 0, DEFAULT_TIERS[0])

    def caller(self) -> Caller:
        return asyncio.run(self.callers.of("key_1"))


def test_it_goes_last_with_limits_of_its_own_tenant() -> None:
    caller = World().caller()
    assert (caller.key, caller.tenant.name, caller.rank) == (KEY, "acme", 2)
    assert is_background(caller.queue_name)
    assert caller.tier.name == "gold"
    assert (caller.tier.weight, caller.tier.reserved) == (0.01, 0.0)
    assert caller.tenant.waiting.max_seconds < 1.0


def test_the_same_caller_as_long_as_nothing_changes() -> None:
    world = World()
    first = world.caller()
    assert world.caller() is first
    assert world.asked == 1
    world.now += FRESH_SECONDS
    assert world.caller() is first
    assert world.asked == 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"key": None}, AuthenticationFailed),
        ({"key": msgspec.structs.replace(KEY, revoked_at=50.0)}, AuthenticationFailed),
        ({"key": msgspec.structs.replace(KEY, expires_at=100.5)}, KeyExpired),
        ({"tenant": None}, TenantGone),
    ],
)
def test_what_is_taken_back_counts_within_a_second(change: dict[str, object], error: type[PenstockError]) -> None:
    world = World()
    world.caller()
    for name, value in change.items():
        setattr(world, name, value)
    world.now += FRESH_SECONDS
    with pytest.raises(error):
        world.caller()
