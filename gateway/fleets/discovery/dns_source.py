"""The replicas behind one DNS name, looked up again when the records expire."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from gateway.config.models.addresses import DnsName, Found
from gateway.fleets.discovery.dns_answer import Answer, Kind, LookupFailure, Target
from gateway.fleets.discovery.last_good import LastGood

log = logging.getLogger(__name__)

#: A name is looked up when its records' TTL is over, within these bounds in seconds.
SHORTEST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 30.0
#: Seconds between lookups if there are no records and no TTL.
EMPTY_SECONDS: Final = 5.0
#: Replicas behind one name at most; an answer is cut to so many.
MOST_REPLICAS: Final = 1024
_ADDRESSES: Final[tuple[Kind, Kind]] = ("A", "AAAA")


class Lookup(Protocol):
    """A DNS resolver."""

    async def look_up(self, name: str, kind: Kind) -> Answer:
        """Look up the records of one kind. Raises LookupFailure."""


class DnsSource:
    """The replicas behind a name. Each query keeps its own last good answer when it fails."""

    def __init__(self, name: DnsName, lookup: Lookup, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self.name = name
        self._lookup = lookup
        self._clock = clock
        self._answers: dict[tuple[str, Kind], LastGood[Target]] = {}
        self._logged_problem = ""
        #: The replicas last found, in a stable order.
        self.found: tuple[Found, ...] = ()

    @property
    def text(self) -> str:
        """The name as the configuration has it."""
        return self.name.text

    @property
    def problem(self) -> str:
        """The problem with the current answers, in one line; empty if there is none."""
        problems = [f"{name} {kind}: {last.problem}" for (name, kind), last in self._answers.items() if last.problem]
        # Most hosts have addresses of one family only.
        return "; ".join(problems) if self._failing() or not self.found else ""

    async def look(self) -> float:
        """Look everything up once; returns the seconds until the next lookup is due."""
        name, asked = self.name, set[tuple[str, Kind]]()
        if name.port:
            ttl = await self._ask_hosts([Target(name.name, name.port)], asked)
        else:
            ttl = await self._ask(name.name, "SRV", asked)
            hosts = self._answers[name.name, "SRV"].held
            ttl = min(ttl, await self._ask_hosts(hosts, asked)) if hosts else ttl
        self._answers = {question: last for question, last in self._answers.items() if question in asked}
        self.found = self._found()
        self._log_problem()
        return min(max(ttl, SHORTEST_SECONDS), LONGEST_SECONDS)

    async def follow(self, changed: Callable[[], None]) -> None:
        """Look up until cancelled; `changed` is called after each round with a different result."""
        delay = SHORTEST_SECONDS
        while True:
            # Spreads the workers' lookups over time.
            await asyncio.sleep(delay * random.uniform(0.9, 1.0))
            before, delay = self.found, SHORTEST_SECONDS
            try:
                delay = await self.look()
                if self.found != before:
                    changed()
            except Exception:
                # Any error: a name that is never looked up again is worse than one more failed lookup.
                log.exception("looking up %s", self.name.text)

    async def _ask_hosts(self, hosts: Sequence[Target], asked: set[tuple[str, Kind]]) -> float:
        """Look up the addresses of hosts; returns the shortest time until that is due again."""
        names = dict.fromkeys(host.host for host in hosts)
        return min(await asyncio.gather(*(self._ask(name, kind, asked) for name in names for kind in _ADDRESSES)))

    async def _ask(self, name: str, kind: Kind, asked: set[tuple[str, Kind]]) -> float:
        asked.add((name, kind))
        last = self._answers.setdefault((name, kind), LastGood())
        try:
            answer = await self._lookup.look_up(name, kind)
        except LookupFailure as error:
            last.failed(str(error))
            return SHORTEST_SECONDS
        last.answered(answer.targets, self._clock())
        if answer.targets:
            return answer.ttl
        return LONGEST_SECONDS if not last.held and self.found else EMPTY_SECONDS

    def _found(self) -> tuple[Found, ...]:
        name = self.name
        hosts = [Target(name.name, name.port)] if name.port else self._answers[name.name, "SRV"].held
        found: dict[str, Found] = {}
        for host in hosts:
            for kind in _ADDRESSES:
                last = self._answers.get((host.host, kind))
                for target in last.held if last is not None else ():
                    address = name.address(target.host, host.port)
                    found.setdefault(address, Found(address, host.host.removesuffix(".")))
        if len(found) > MOST_REPLICAS:
            log.error("%s names %d replicas; the first %d are taken", name.text, len(found), MOST_REPLICAS)
        return tuple(found[address] for address in sorted(found)[:MOST_REPLICAS])

    def _failing(self) -> bool:
        return any(last.problem and last.held for last in self._answers.values())

    def _log_problem(self) -> None:
        """Log a problem when it begins and when it ends."""
        problem = self.problem
        if bool(problem) != bool(self._logged_problem):
            if problem:
                log.warning("%s: %s; %d replicas stay", self.name.text, problem, len(self.found))
            else:
                log.info("%s: answered again, %d replicas", self.name.text, len(self.found))
        self._logged_problem = problem
