"""A small DNS server on loopback, over UDP and TCP, for tests of what asks one."""

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
        #: Over UDP it only says that the answer is too long for that.
        self.truncates = False
        #: Name -> the one that it stands for, which is answered with it.
        self.aliases: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.port = 0
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        answer = self._answer(dns.message.from_wire(data))
        if self.truncates:
            answer.answer.clear()
            answer.flags |= dns.flags.TC
        self._transport.sendto(answer.to_wire(), addr)

    async def serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(2))
        answer = self._answer(dns.message.from_wire(await reader.readexactly(length))).to_wire()
        writer.write(len(answer).to_bytes(2) + answer)
        writer.close()

    def _answer(self, query: dns.message.Message) -> dns.message.Message:
        (question,) = query.question
        name, kind = question.name.to_text().rstrip("."), dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind))
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        owner = question.name
        while (target := self.aliases.get(name)) is not None:
            answer.answer.append(dns.rrset.from_text(owner, self.ttl, "IN", "CNAME", f"{target}."))
            name, owner = target, dns.name.from_text(target)
        values = self.records.get((name, kind), [])
        if kind in self.broken:
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif values:
            answer.answer.append(dns.rrset.from_text_list(owner, self.ttl, "IN", kind, values))
        elif not any(known == name for known, _ in self.records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        return answer


@contextlib.asynccontextmanager
async def name_server() -> AsyncIterator[NameServer]:
    tcp: asyncio.Server | None = None
    while tcp is None:
        transport, server = await asyncio.get_running_loop().create_datagram_endpoint(NameServer, ("127.0.0.1", 0))
        try:
            tcp = await asyncio.start_server(server.serve_tcp, "127.0.0.1", server.port)
        except OSError:
            transport.close()  # a port that is free for UDP need not be so for TCP
    try:
        yield server
    finally:
        tcp.close()
        await tcp.wait_closed()
        transport.close()
