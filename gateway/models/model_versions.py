"""The versions of one model in one worker: which of them answers a request, by the store's split."""

import logging
from collections.abc import Sequence
from typing import Final

from gateway.config.models.settings import Model
from gateway.models.asking import Asking
from gateway.rollouts.declared import has_version
from gateway.scheduling.admission_queue import AdmissionQueue
from gateway.tenancy.tenants.caller import Caller
from observability.record import RequestRecord
from protos.errors import InvalidRequest, VersionNotAllowed
from routing.contracts.policy import ReplicaView
from routing.contracts.versions import NAMED, VersionBits
from routing.fleet.versioned_fleet import VersionedFleet
from routing.rollouts.split import Split, chooser

log = logging.getLogger(__name__)

#: The header by which a request names the version that shall answer, and an answer the one that does.
VERSION_HEADER: Final = "x-penstock-version"
_HEADER: Final = VERSION_HEADER.encode()
_MOST_CHARACTERS: Final = 128


class ModelVersions:
    """Chooses each request's version, and lets those serve that the split names.

    Without a split of the store the configured stable version serves alone. So it does where a split was begun under
    another configured one, or where its stable version has no pools any more: whoever changes the file means it.
    """

    def __init__(self, model: Model, bits: VersionBits, fleet: VersionedFleet, queue: AdmissionQueue) -> None:
        self.configured = model.stable_version
        #: Requests of the candidate that the stable version answered, as no replica of the candidate could.
        self.missed = 0
        self._model = model
        self._bits = bits
        self._fleet = fleet
        self._queue = queue
        self.split = Split(model=model.name, stable=self.configured)
        self._chooses = chooser(self.split)
        self._stable = bits.bit(self.configured)
        self._candidate = 0

    def after(self, model: Model) -> "ModelVersions":
        """Return the versions of the model as it is configured now, over the same fleet."""
        made = ModelVersions(model, self._bits, self._fleet, self._queue)
        made.missed = self.missed
        return made

    def follow(self, stored: Split | None) -> None:
        """Follow the store's split from now on; None: it has none.

        Requests that wait for a version which serves no longer go to the stable one.
        """
        if (
            stored is None
            or stored.configured not in ("", self.configured)
            or not has_version(self._model, stored.stable)
        ):
            stored = Split(model=self._model.name, stable=self.configured)
        if stored != self.split:
            log.info("model %s: %s", self._model.name, _told(stored))
        self.split, self._chooses = stored, chooser(stored)
        self._stable = self._bits.bit(stored.stable)
        self._candidate = self._bits.bit(stored.candidate) if stored.share else 0
        self._fleet.on_lost, self._fleet.on_moved, self._fleet.stable = self._lost, self._moved, self._stable
        serves = self._stable | self._candidate
        if serves != self._fleet.serves:
            self._queue.move_waiting(self._fleet.serves & ~serves, self._stable)
        if stored.warm is None:
            self._fleet.serve(serves)
        else:
            self._fleet.serve(serves, self._bits.bit(stored.candidate), stored.warm)

    def assign(self, caller: Caller, needs: int, adapter: str, asking: Asking | None, record: RequestRecord) -> int:
        """Return a request's needs with the version that shall answer it, which is recorded.

        Raises VersionNotAllowed and InvalidRequest for a version that the request names.
        """
        split, candidate = self.split, self._candidate
        record.rollout_epoch = 0
        if asking is not None:
            named = asking.header(_HEADER)
            if named is not None:
                return needs | self._named(caller, named, record)
            if candidate:
                record.rollout_epoch = split.epoch
                if self._chooses(caller.tenant.name, caller.tier.name, asking.split_key(split.by, split.header)):
                    # That all its replicas can take it, and one is there, is the usual case.
                    if self._fleet.has(needs | candidate, adapter):
                        record.version = split.candidate
                        return needs | candidate
                    self.missed += 1
        record.version = split.stable
        return needs | self._stable

    def candidates(self, version: str) -> list[ReplicaView]:
        """Return the replicas of a version that can take a request now."""
        return self._fleet.candidates(needs=self._bits.bit(version) | NAMED)

    def named(self, needs: int) -> str:
        """Return the version among a request's needs."""
        return self._bits.name(needs)

    def _lost(self, versions: int) -> None:
        """Let requests that wait for another version be stable's when none of its replicas can take them any more.

        That may have been the candidate when they were read, and have left since.
        """
        if gone := versions & ~self._stable:
            self.missed += self._queue.move_waiting(gone, self._stable)

    def _moved(self) -> None:
        """Count a request that was sent to the candidate, or about to be, when its replicas were lost."""
        self.missed += 1

    def _named(self, caller: Caller, value: bytes, record: RequestRecord) -> int:
        if not caller.tenant.chooses_version:
            raise VersionNotAllowed(
                f"This API key may not choose the version that answers; leave the header '{VERSION_HEADER}' out.",
                param=VERSION_HEADER,
            )
        version = value.decode("latin-1")
        if version not in self._known():
            raise InvalidRequest(
                f"The model '{self._model.name}' has no version '{version[:_MOST_CHARACTERS]}'; it has "
                f"{', '.join(self._known())}.",
                param=VERSION_HEADER,
            )
        record.version = version
        return self._bits.bit(version) | NAMED

    def _known(self) -> Sequence[str]:
        there = {status.version for status in self._fleet.statuses()} - {""}
        return sorted({*there, *self._model.pool_versions, self.split.stable})


def _told(split: Split) -> str:
    """Say a split in a line of the log."""
    if not split.candidate:
        return f"the version {split.stable} answers"
    return f"the version {split.stable} answers, and {split.candidate} a share of {split.share:g}"
