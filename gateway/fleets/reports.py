"""Each worker's report on its replicas, kept in the store for a few seconds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

import msgspec

from gateway.fleets.configured import FoundReplica
from gateway.store.lua_script import Script
from gateway.store.unreadable import readable
from gateway.tenancy.tenants.transactions import Storage
from routing.health.replica_status import ReplicaStatus

#: Lifetime of a report in seconds; the reports of a dead worker expire.
REPORT_SECONDS: Final = 5.0
# One hash tag for all keys, which one script touches.
_KEYS: Final = ("penstock:{replicas}:times", "penstock:{replicas}:reports", "penstock:{replicas}:numbers")
_REPORTS: Final = Script.load("gateway.fleets", "reports.lua")

#: Replica statuses by model.
Report = dict[str, list[ReplicaStatus]]
_DECODER: Final = msgspec.msgpack.Decoder(Report)


class Reporter:
    """A worker's report, which is encoded and sent only where it has changed. `worker` is a name never used before."""

    def __init__(self, storage: Storage, worker: str) -> None:
        self._storage = storage
        self._worker = worker
        #: The number of the last change, which the store keeps beside the report.
        self._number = 0
        #: By model: the statuses as they were given, and encoded.
        self._encoded: dict[str, tuple[Sequence[ReplicaStatus], msgspec.Raw]] = {}

    async def report(self, statuses: Mapping[str, Sequence[ReplicaStatus]]) -> float:
        """Report the statuses by model; returns the store's time in seconds since the epoch.

        Statuses of a model that are the same object as the last time must not have changed.

        Raises:
            StoreUnavailable: The store did not answer.
        """
        known = self._encoded
        changed = known.keys() != statuses.keys()
        for model, of_model in statuses.items():
            before = known.get(model)
            if before is None or before[0] is not of_model:
                encoded = msgspec.Raw(msgspec.msgpack.encode(of_model))
                changed = changed or before is None or encoded != before[1]
                known[model] = (of_model, encoded)
        if changed:
            self._encoded = known = {model: known[model] for model in statuses}
            self._number += 1
        else:
            now, *missing = await self._send()
            if not missing:
                return float(now)
        # The store has another report than the last one: it is a new store, or has lost a write.
        now, *_ = await self._send(msgspec.msgpack.encode({model: raw for model, (_, raw) in known.items()}))
        return float(now)

    async def _send(self, *report: bytes) -> list[bytes]:
        arguments: list[str | bytes] = [str(REPORT_SECONDS), "", self._worker, str(self._number), *report]
        return cast("list[bytes]", await self._storage.run(_REPORTS, _KEYS, arguments))


async def reports(storage: Storage) -> list[Report]:
    """The last report of every live worker; records of another program version are left out.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    _, *found = cast("list[bytes]", await storage.run(_REPORTS, _KEYS, [str(REPORT_SECONDS), "all"]))
    return readable(found, _DECODER.decode)


def found_replicas(reports: Iterable[Mapping[str, Sequence[ReplicaStatus]]]) -> Iterator[FoundReplica]:
    """Yield the replicas in all workers' reports, with repetitions."""
    for one in reports:
        for model, statuses in one.items():
            for status in statuses:
                yield FoundReplica(model, status.pool, status.id, status.address)
