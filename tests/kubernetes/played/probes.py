"""A container's probes and hooks: HTTP, TCP, gRPC and commands."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio
import httpx

from tests.kubernetes.api import Object

_HEALTH = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"

#: Runs a command in the container; the answer is its exit status.
Execute = Callable[[list[str], float], Awaitable[int]]


class Prober:
    """Asks what a probe or a hook says."""

    def __init__(self) -> None:
        self._http = httpx.AsyncClient(verify=False, follow_redirects=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def passes(self, probe: Object, ip: str, ports: list[Object], execute: Execute) -> bool:
        """Whether it passes, within its own time."""
        seconds = float(probe.get("timeoutSeconds", 1))
        try:
            async with asyncio.timeout(seconds):
                return await self._asked(probe, ip, ports, execute, seconds)
        except (TimeoutError, OSError, httpx.HTTPError, grpc.aio.AioRpcError):
            return False

    async def _asked(self, probe: Object, ip: str, ports: list[Object], execute: Execute, seconds: float) -> bool:
        if get := probe.get("httpGet"):
            host = get.get("host") or ip
            url = f"{get.get('scheme', 'HTTP').lower()}://{host}:{port_of(get['port'], ports)}{get.get('path', '/')}"
            headers = {one["name"]: one["value"] for one in get.get("httpHeaders", [])}
            # A new connection each time, as the kubelet's: it must be accepted as well.
            headers["connection"] = "close"
            answer = await self._http.get(url, headers=headers, timeout=seconds)
            return 200 <= answer.status_code < 400
        if tcp := probe.get("tcpSocket"):
            _, writer = await asyncio.open_connection(tcp.get("host") or ip, port_of(tcp["port"], ports))
            writer.close()
            return True
        if rpc := probe.get("grpc"):
            service = (rpc.get("service") or "").encode()
            async with grpc.aio.insecure_channel(f"{ip}:{rpc['port']}") as channel:
                # Messages of grpc.health.v1, of one field each: the service's name, and its state.
                asked = b"\x0a" + bytes((len(service),)) + service if service else b""
                check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_HEALTH)
                said = await check(asked, timeout=seconds)
            return said == _SERVING
        if sleep := probe.get("sleep"):
            await asyncio.sleep(sleep["seconds"])
            return True
        return await execute(probe["exec"]["command"], seconds) == 0


def port_of(port: Any, ports: list[Object]) -> int:
    """A probe's port by its number or by its name."""
    if isinstance(port, int):
        return port
    return next((int(one["containerPort"]) for one in ports if one.get("name") == port), 0)


class Watched:
    """Counts a probe's answers; `verdict` is what they come to."""

    def __init__(self, probe: Object, verdict: bool | None) -> None:
        self.probe = probe
        self.verdict = verdict
        self._run = 0

    def count(self, passed: bool) -> bool:
        """Count an answer; whether the verdict has changed by it."""
        if passed == self.verdict:
            self._run = 0
            return False
        self._run += 1
        threshold = self.probe.get("successThreshold", 1) if passed else self.probe.get("failureThreshold", 3)
        if self._run < threshold:
            return False
        self._run = 0
        self.verdict = passed
        return True


async def probed(watched: Watched, ask: Callable[[Object], Awaitable[bool]], changed: Callable[[bool], None]) -> None:
    """Ask again and again, and tell of each change of the verdict, until it is cancelled."""
    probe = watched.probe
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    while True:
        passed = await ask(probe)
        if watched.count(passed):
            changed(passed)
        await asyncio.sleep(probe.get("periodSeconds", 10))


async def hook(action: Object, ask: Callable[[Object], Awaitable[bool]], seconds: float) -> None:
    """Run a preStop or postStart hook; what it answers is of no account."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ask({**action, "timeoutSeconds": seconds})
