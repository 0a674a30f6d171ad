"""The replicas behind one name in DNS, looked up again when its records are out of date."""

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

#: A name is asked for when its records' time to live is over, but no more and no less often than this.
SHORTEST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 30.0
#: How often where there is nothing, and nothing says how long that is so.
EMPTY_SECONDS: Final = 5.0
#: Replicas behind one name; more are not believed.
MOST_REPLICAS: Final = 1024
_ADDRESSES: Final[tuple[Kind, Kind]] = ("A", "AAAA")


class Lookup(Protocol):
    """What is asked of DNS."""

    async def look_up(self, name: str, kind: Kind) -> Answer:
        """The records of one kind. Raises LookupFailure."""


class DnsSource:
    """Each question keeps its own last good answer, so that one that fails leaves what the others say."""

    def __init__(self, name: DnsName, lookup: Lookup, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self.name = name
        self._lookup = lookup
        self._clock = clock
        self._answers: dict[tuple[str, Kind], LastGood[Target]] = {}
        self._said = ""
        #: What was found last, in a steady order.
        self.found: tuple[Found, ...] = ()

    @property
    def problem(self) -> str:
        """What is wrong with what is known, in one line; empty where nothing is."""
        problems = [f"{name} {kind}: {last.problem}" for (name, kind), last in self._answers.items() if last.problem]
        # Most hosts have addresses of one kind only.
        return "; ".join(problems) if self._failing() or not self.found else ""

    async def look(self) -> float:
        """Ask for everything once; gives the seconds until that is due again."""
        name, asked = self.name, set[tuple[str, Kind]]()
        if name.port:
            ttl = await self._ask_hosts([Target(name.name, name.port)], asked)
        else:
            ttl = await self._ask(name.name, "SRV", asked)
            hosts = self._answers[name.name, "SRV"].held
            ttl = min(ttl, await self._ask_hosts(hosts, asked)) if hosts else ttl
        self._answers = {question: last for question, last in self._answers.items() if question in asked}
        self.found = self._found()
        self._say()
        return min(max(ttl, SHORTEST_SECONDS), LONGEST_SECONDS)

    async def follow(self, changed: Callable[[], None]) -> None:
        """Ask for ever; `changed` is called after each round that found something else than the one before."""
        delay = SHORTEST_SECONDS
        while True:
            # Not all workers at one time.
            await asyncio.sleep(delay * random.uniform(0.9, 1.0))
            before, delay = self.found, SHORTEST_SECONDS
            try:
                delay = await self.look()
                if self.found != before:
                    changed()
            except Exception:
                # Whatever it was: a name that is never asked for again is worse than one more failed look.
                log.exception("looking up %s", self.name.text)

    async def _ask_hosts(self, hosts: Sequence[Target], asked: set[tuple[str, Kind]]) -> float:
        """Ask for the addresses of hosts; the shortest time until that is due again."""
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

    def _say(self) -> None:
        """Log what is wrong when it begins and when it ends, and not in between."""
        problem = self.problem
        if bool(problem) != bool(self._said):
            if problem:
                log.warning("%s: %s; %d replicas stay", self.name.text, problem, len(self.found))
            else:
                log.info("%s: answered again, %d replicas", self.name.text, len(self.found))
        self._said = problem
