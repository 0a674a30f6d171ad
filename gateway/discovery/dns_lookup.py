"""One question to DNS, by dnspython."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import dns.asyncresolver
import dns.exception
import dns.nameserver
import dns.resolver

#: A question, its repetitions and all servers asked.
LOOKUP_SECONDS: Final = 5.0

Kind = Literal["A", "AAAA", "SRV"]


class LookupFailure(Exception):
    """No answer; the message is one line."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a record names: an address of a host, or of SRV a host's name and its port."""

    host: str
    port: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """In a steady order, each target once. None where the name or its records do not exist. `ttl` in seconds."""

    targets: Sequence[Target]
    ttl: float


class DnsLookup:
    """Asks the servers of /etc/resolv.conf, which is read each time, or the one that is given as address and port."""

    def __init__(self, server: tuple[str, int] | None = None) -> None:
        self._server = server

    async def look_up(self, name: str, kind: Kind) -> Answer:
        """The records of one kind. Of SRV those that come first in priority. Raises LookupFailure."""
        try:
            # Search domains as every other program has them; a name that ends with a dot has none.
            async with asyncio.timeout(LOOKUP_SECONDS + 1.0):
                answer = await self._resolver().resolve(
                    name, kind, raise_on_no_answer=False, lifetime=LOOKUP_SECONDS, search=True
                )
        except dns.resolver.NXDOMAIN:
            return Answer((), 0.0)
        except (dns.exception.DNSException, OSError, ValueError) as error:
            raise LookupFailure(" ".join(str(error).split()) or type(error).__name__) from error
        return Answer(_targets(list(answer), kind), float(answer.chaining_result.minimum_ttl))

    def _resolver(self) -> dns.asyncresolver.Resolver:
        if self._server is None:
            return dns.asyncresolver.Resolver()
        resolver = dns.asyncresolver.Resolver(configure=False)
        address, port = self._server
        resolver.nameservers = [dns.nameserver.Do53Nameserver(address, port)]
        return resolver


def _targets(records: Sequence[Any], kind: Kind) -> Sequence[Target]:
    found: set[Target] = set()
    if kind == "SRV":
        first = min((record.priority for record in records), default=0)
        for record in records:
            host = record.target.to_text(omit_final_dot=False)
            # A single dot says that there is no such service (RFC 2782).
            if record.priority == first and host != ".":
                found.add(Target(host, record.port))
    else:
        found = {Target(record.address) for record in records}
    return sorted(found, key=lambda target: (target.host, target.port))
