"""DNS lookups by dnspython."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import dns.asyncresolver
import dns.exception
import dns.nameserver
import dns.resolver

from gateway.fleets.discovery.dns_answer import Answer, Kind, LookupFailure, Target

#: Bound of a lookup in seconds, with retries over all servers.
LOOKUP_SECONDS: Final = 5.0


class DnsLookup:
    """Queries one given DNS server, or those of /etc/resolv.conf, which is read each time."""

    def __init__(self, server: tuple[str, int] | None = None) -> None:
        self._server = server

    async def look_up(self, name: str, kind: Kind) -> Answer:
        """Look up the records of one kind; of SRV records, those of the first priority. Raises LookupFailure."""
        try:
            # Search domains apply as in other programs; a name that ends with a dot has none.
            async with asyncio.timeout(LOOKUP_SECONDS + 1.0):
                answer = await self._resolver().resolve(
                    name, kind, raise_on_no_answer=False, lifetime=LOOKUP_SECONDS, search=True
                )
        except dns.resolver.NXDOMAIN:
            return Answer((), 0.0)
        except (dns.exception.DNSException, OSError, ValueError) as error:
            raise LookupFailure(_in_words(error)) from error
        return Answer(_targets(list(answer), kind), float(answer.chaining_result.minimum_ttl))

    def _resolver(self) -> dns.asyncresolver.Resolver:
        if self._server is None:
            return dns.asyncresolver.Resolver()
        resolver = dns.asyncresolver.Resolver(configure=False)
        address, port = self._server
        resolver.nameservers = [dns.nameserver.Do53Nameserver(address, port)]
        return resolver


def _in_words(error: Exception) -> str:
    """Describe an error in one line, each failed server once."""
    failed = error.kwargs.get("errors") if isinstance(error, dns.exception.DNSException) else None
    if not failed:
        return " ".join(str(error).split()) or type(error).__name__
    failures: set[str] = set()
    for server, _, _, failure, _ in failed:
        name = str(server).removeprefix("Do53:").partition("@")[0]
        failures.add(
            f"the server {name} {'is silent' if isinstance(failure, dns.exception.Timeout) else f'says {failure}'}"
        )
    return "; ".join(sorted(failures))


def _targets(records: Sequence[Any], kind: Kind) -> Sequence[Target]:
    found: set[Target] = set()
    if kind == "SRV":
        first = min((record.priority for record in records), default=0)
        for record in records:
            host = record.target.to_text(omit_final_dot=False)
            # A single dot says that the service does not exist (RFC 2782).
            if record.priority == first and host != ".":
                found.add(Target(host, record.port))
    else:
        found = {Target(record.address) for record in records}
    return sorted(found, key=lambda target: (target.host, target.port))
