"""The registered replicas of each pool. Pure: the store is read elsewhere."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gateway.config.models.addresses import Found, is_grpc_address
from gateway.config.settings import Config
from gateway.fleets.discovery.registrations import Registration
from protos.launch_step import LaunchStep

log = logging.getLogger(__name__)

#: Replicas of one pool at most; further ones are ignored.
MOST_REPLICAS: Final = 1024
_MOST_COMPLAINTS: Final = 1024


class RegisteredPools:
    """Registered replicas. One whose record is gone stays while it can be reached: the store may have lost the record.

    Only one that neither says nor shows that it is there is dropped, and one whose address is another pool's now. One
    that is being started is none yet, and one that is being stopped stays like one without a record.
    """

    def __init__(self, config: Config, last: "RegisteredPools | None" = None) -> None:
        """The replicas of pools that the `last` one has, too, are known here."""
        known = {} if last is None else last._members
        self._members: dict[tuple[str, str], tuple[Found, ...]] = {
            (model.name, pool.name): known.get((model.name, pool.name), ())
            for model in config.models
            for pool in model.pools
            if pool.is_registered
        }
        self._secure = {
            (model.name, pool.name) for model in config.models for pool in model.pools if pool.tls is not None
        }
        self._logged: set[str] = set()

    def __bool__(self) -> bool:
        """Whether the configuration has such pools."""
        return bool(self._members)

    def catch_up(self, last: "RegisteredPools") -> None:
        """Know what the last one has learned meanwhile."""
        for place in self._members.keys() & last._members.keys():
            self._members[place] = last._members[place]

    @property
    def models(self) -> set[str]:
        """The models of which some are known."""
        return {model for (model, _), members in self._members.items() if members}

    def members(self, model: str, pool: str) -> Sequence[Found]:
        return self._members.get((model, pool), ())

    def update(self, replicas: Iterable[Registration], answers: Callable[[str, str, Found], bool]) -> set[str]:
        """Take over all records; returns the models whose set of replicas has changed.

        `answers` says of a model, a pool and a replica of it whether that can be reached.
        """
        registered: dict[tuple[str, str], dict[str, Found]] = {place: {} for place in self._members}
        for replica in replicas:
            place = (replica.model, replica.pool)
            problem = self._problem(replica)
            if problem:
                self._log_problem(replica, problem)
            elif replica.step is LaunchStep.READY:
                registered[place][replica.address] = Found(replica.address)
        elsewhere = {address: place for place, found in registered.items() for address in found}
        changed = set()
        for place, before in self._members.items():
            found = registered[place]
            for member in before:
                if member.address not in elsewhere and answers(*place, member):
                    found[member.address] = member
            now = tuple(found[address] for address in sorted(found)[:MOST_REPLICAS])
            if now != before:
                self._members[place] = now
                changed.add(place[0])
        return changed

    def _problem(self, replica: Registration) -> str:
        if (replica.model, replica.pool) not in self._members:
            return "the configuration has no such pool of registered replicas"
        if not is_grpc_address(replica.address):
            return "its address cannot be read"
        # Otherwise anyone who can write to the store could receive the pool's requests unencrypted.
        if (replica.model, replica.pool) in self._secure and not replica.address.startswith("grpcs://"):
            return "the pool has tls, and its address is not grpcs://"
        return ""

    def _log_problem(self, replica: Registration, problem: str) -> None:
        if replica.key not in self._logged and len(self._logged) < _MOST_COMPLAINTS:
            self._logged.add(replica.key)
            log.warning(
                "a replica at %.256s registers for pool %.64s of model %.128s: %s",
                *(replica.address, replica.pool, replica.model, problem),
            )
