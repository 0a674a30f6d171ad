"""Fleets of real replicas for tests of the way through them."""

import contextlib
from collections.abc import AsyncIterator, Iterable

from protos.types import Role
from routing.fleet.fleet import Fleet
from tests.harness import spec_of


@contextlib.asynccontextmanager
async def fleet_at(*addresses: str, roles: Iterable[Role] = ()) -> AsyncIterator[Fleet]:
    """A connected fleet, its replicas named p/0, p/1 and so on; `roles` are theirs in turn, BOTH where not given."""
    given = [*roles, *[Role.BOTH] * len(addresses)]
    fleet = Fleet((spec_of(address, id=f"p/{i}", role=given[i]) for i, address in enumerate(addresses)), "test")
    fleet.start()
    try:
        await fleet.wait_ready(len(addresses))
        yield fleet
    finally:
        await fleet.aclose()
