"""Each worker's report on its replicas, kept in the store for a few seconds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

import msgspec

from gateway.fleets.configured import FoundReplica
from gateway.store.lua_script import Script
from gateway.store.unreadable import readable
from gateway.tenancy.tenants.transactions import Storage
from routing.health.replica_status import ReplicaStatus

#: Lifetime of a report in seconds; the reports of a dead worker expire.
REPORT_SECONDS: Final = 5.0
# One hash tag for both keys, which one script touches.
_KEYS: Final = ("penstock:{replicas}:times", "penstock:{replicas}:reports")
_REPORTS: Final = Script.load("gateway.fleets", "reports.lua")

#: Replica statuses by model.
Report = dict[str, list[ReplicaStatus]]
_DECODER: Final = msgspec.msgpack.Decoder(Report)


async def report(storage: Storage, worker: str, statuses: Mapping[str, list[ReplicaStatus]]) -> float:
    """Report a worker's replica statuses; returns the store's time in seconds since the epoch.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    arguments: list[str | bytes] = [str(REPORT_SECONDS), "", worker, msgspec.msgpack.encode(statuses)]
    reply = cast("list[bytes]", await storage.run(_REPORTS, _KEYS, arguments))
    return float(reply[0])


async def reports(storage: Storage) -> list[Report]:
    """The last report of every live worker; records of another program version are left out.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    _, *found = cast("list[bytes]", await storage.run(_REPORTS, _KEYS, [str(REPORT_SECONDS), "all"]))
    return readable(found, _DECODER.decode)


def found_replicas(reports: Sequence[Report]) -> Iterator[FoundReplica]:
    """Yield the replicas in all workers' reports, with repetitions."""
    for one in reports:
        for model, statuses in one.items():
            for status in statuses:
                yield FoundReplica(model, status.pool, status.id, status.address)
