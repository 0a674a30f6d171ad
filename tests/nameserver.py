"""A small DNS server on loopback, over UDP, for tests of what asks one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset


class NameServer(asyncio.DatagramProtocol):
    """Answers from `records`: (name, kind) -> values. A name without any is NXDOMAIN."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[str]] = {}
        self.ttl = 1
        #: Kinds that it answers with SERVFAIL.
        self.broken: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.port = 0
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._transport.sendto(self._answer(dns.message.from_wire(data)).to_wire(), addr)

    def _answer(self, query: dns.message.Message) -> dns.message.Message:
        (question,) = query.question
        name, kind = question.name.to_text().rstrip("."), dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind))
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        values = self.records.get((name, kind), [])
        if kind in self.broken:
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif values:
            answer.answer.append(dns.rrset.from_text_list(question.name, self.ttl, "IN", kind, values))
        elif not any(known == name for known, _ in self.records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        return answer


@contextlib.asynccontextmanager
async def name_server() -> AsyncIterator[NameServer]:
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(NameServer, ("127.0.0.1", 0))
    try:
        yield server
    finally:
        transport.close()
