"""What a round of the controller reads in the store."""

import asyncio

import msgspec

from gateway.fleets.discovery.registrations import Registration, registered
from gateway.fleets.reports import Report as FleetReport
from gateway.fleets.reports import reports
from gateway.scaling.demand.demand_reports import Report, demand_reports
from gateway.scaling.intents import StoredIntents, stored_intents
from gateway.scaling.overrides import StoredOverrides, stored_overrides
from gateway.scaling.shape_holds import ShapeHolds, shape_holds
from gateway.scaling.version_sizes import VersionSizes, version_sizes
from gateway.tenancy.tenants.transactions import Storage


class Inputs(msgspec.Struct):
    """The records of one round, and the store's time: demand, replica statuses, registrations, overrides, intents, and
    what rollouts and shapes say of sizes.
    """

    now: float
    demand: list[Report]
    fleets: list[FleetReport]
    registrations: list[Registration]
    overrides: StoredOverrides
    stored: StoredIntents
    sizes: dict[str, VersionSizes]
    holds: dict[str, ShapeHolds]


async def read_inputs(storage: Storage) -> Inputs:
    """Read all at once.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    asked = asyncio.gather(version_sizes(storage), shape_holds(storage))
    demand, fleets, registrations, overrides, intents, (sizes, holds) = await asyncio.gather(
        demand_reports(storage),
        reports(storage),
        registered(storage),
        stored_overrides(storage),
        stored_intents(storage),
        asked,
    )
    return Inputs(demand.now, demand.reports, fleets, registrations, overrides, intents, sizes, holds)
