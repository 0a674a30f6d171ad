"""What a cluster has beside its nodes, played: addresses of Services, names, and volumes for claims.

`python -m tests.kubernetes.played.services SPEC.json` plays until it is ended. A Service's address leads to one of its
endpoints: as kube-proxy does, it takes ready ones, or those that terminate but still serve where there is no other;
what is open stays open. SIGUSR1 cuts what is open to the API server.
"""

import asyncio
import contextlib
import json
import random
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import httpx

from tests.kubernetes.api import AsyncApi, Object
from tests.kubernetes.network import Network
from tests.kubernetes.played.claims import provision

_SERVICES, _SLICES = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"
_DOMAIN = "svc.cluster.local"
_RETRY_SECONDS = 0.5
_CHUNK_BYTES = 64 * 1024

Key = tuple[str, str]


def key_of(one: Object) -> Key:
    return one["metadata"]["namespace"], one["metadata"]["name"]


@dataclass
class Known:
    """Services and their slices, as last heard."""

    services: dict[Key, Object] = field(default_factory=dict)
    slices: dict[Key, Object] = field(default_factory=dict)

    def endpoints(self, service: Key) -> list[tuple[Object, Object]]:
        """Endpoint and slice of each that a service has."""
        namespace, name = service
        return [
            (endpoint, one)
            for one in self.slices.values()
            if one["metadata"]["namespace"] == namespace
            and one["metadata"].get("labels", {}).get("kubernetes.io/service-name") == name
            for endpoint in one.get("endpoints") or []
        ]

    def targets(self, service: Key, port_name: str) -> list[tuple[str, int]]:
        """Where a new connection may go."""
        ready, terminating = [], []
        for endpoint, one in self.endpoints(service):
            port = next((p["port"] for p in one.get("ports") or [] if (p.get("name") or "") == port_name), None)
            if port is None:
                continue
            conditions = endpoint.get("conditions", {})
            if conditions.get("ready", True):
                ready.append((endpoint["addresses"][0], port))
            elif conditions.get("serving") and conditions.get("terminating"):
                terminating.append((endpoint["addresses"][0], port))
        return ready or terminating

    def addresses(self, name: str) -> list[str] | None:
        """The addresses of a name of the cluster; None where there is no such name."""
        labels = name.removesuffix(f".{_DOMAIN}").split(".")
        if not name.endswith(f".{_DOMAIN}") or len(labels) not in (2, 3):
            return None
        service = self.services.get((labels[-1], labels[-2]))
        if service is None:
            return None
        if len(labels) == 2 and service["spec"].get("clusterIP") not in (None, "", "None"):
            return [service["spec"]["clusterIP"]]
        unready = service["spec"].get("publishNotReadyAddresses", False)
        found = [
            endpoint["addresses"][0]
            for endpoint, _ in self.endpoints((labels[-1], labels[-2]))
            if (len(labels) == 2 or endpoint.get("hostname") == labels[0])
            and (unready or endpoint.get("conditions", {}).get("ready", True))
        ]
        return found or None


class Names(asyncio.DatagramProtocol):
    """The cluster's name server."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        with contextlib.suppress(dns.exception.DNSException):
            query = dns.message.from_wire(data)
            self._transport.sendto(self._answer(query).to_wire(), addr)

    def _answer(self, query: dns.message.Message) -> dns.message.Message:
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA | dns.flags.AA
        question = query.question[0]
        addresses = self._known.addresses(question.name.to_text().rstrip(".").lower())
        if addresses is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif question.rdtype == dns.rdatatype.A:
            random.shuffle(addresses)
            answer.answer.append(dns.rrset.from_text_list(question.name, 5, "IN", "A", addresses))
        return answer


class Services:
    """Listens on each Service's address, and splices what comes with an endpoint."""

    def __init__(self, api: AsyncApi, here: Network) -> None:
        self._api = api
        self._here = here
        self._known = Known()
        self._listening: dict[tuple[str, int], asyncio.Server] = {}
        self._to_api: set[asyncio.StreamWriter] = set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._cut)
        await loop.create_datagram_endpoint(lambda: Names(self._known), (self._here.name_server, 53))
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._follow(_SERVICES, self._known.services))
            parts.create_task(self._follow(_SLICES, self._known.slices))

    def _cut(self) -> None:
        for writer in list(self._to_api):
            writer.transport.abort()

    async def _follow(self, path: str, known: dict[Key, Object]) -> None:
        while True:
            try:
                listed = await self._api.call("GET", path)
                known.clear()
                known.update({key_of(one): one for one in listed["items"]})
                await self._listen()
                async for event in self._api.watch(path, listed["metadata"]["resourceVersion"]):
                    one = event["object"]
                    if event["type"] == "DELETED":
                        known.pop(key_of(one), None)
                    else:
                        known[key_of(one)] = one
                    await self._listen()
            except httpx.HTTPError:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self) -> None:
        """Listen where a Service has its address, and nowhere else."""
        wanted = {
            (service["spec"]["clusterIP"], port["port"]): (key, port.get("name") or "")
            for key, service in self._known.services.items()
            if service["spec"].get("clusterIP") not in (None, "", "None")
            for port in service["spec"].get("ports", [])
            if port.get("protocol", "TCP") == "TCP"
        }
        for place in set(self._listening) - set(wanted):
            self._listening.pop(place).close()
        for place in set(wanted) - set(self._listening):
            service, port_name = wanted[place]

            async def accept(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                service: Key = service,
                port_name: str = port_name,
            ) -> None:
                await self._splice(reader, writer, service, port_name)

            with contextlib.suppress(OSError):
                self._listening[place] = await asyncio.start_server(accept, *place, backlog=1024)

    async def _splice(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, service: Key, port_name: str
    ) -> None:
        targets = self._known.targets(service, port_name)
        try:
            there = await asyncio.open_connection(*random.choice(targets)) if targets else None
        except OSError:
            there = None
        if there is None:
            writer.transport.abort()
            return
        ends = {writer, there[1]} if service == ("default", "kubernetes") else set()
        self._to_api |= ends
        try:
            await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
        finally:
            self._to_api -= ends
            for one in (writer, there[1]):
                one.transport.abort() if one.is_closing() else one.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes; an end is handed on as an end, a reset as a reset."""
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()


async def _all(api: AsyncApi, spec: Object) -> None:
    async with asyncio.TaskGroup() as parts:
        parts.create_task(Services(api, Network(spec["prefix"])).run())
        parts.create_task(provision(api, Path(spec["claims"])))


async def _play(spec: Object) -> None:
    api = AsyncApi(Path(spec["kubeconfig"]))
    playing = asyncio.create_task(_all(api, spec))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    try:
        await playing
    except asyncio.CancelledError:
        pass
    finally:
        await api.close()


if __name__ == "__main__":
    asyncio.run(_play(json.loads(Path(sys.argv[1]).read_text())))
