"""A network for one cluster, which only this machine can reach: a bridge, to which each pod has a cable of its own."""

import asyncio
import fcntl
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.store import with_parent

#: 100.64.0.0/10 is nobody's on the internet (RFC 6598); 127.0.0.0/8 is refused in EndpointSlices.
_NETWORKS = range(64, 128)


class CannotRoute(Exception):
    """The machine's network cannot be changed; the text says in one line what would help."""


@dataclass(frozen=True)
class Network:
    """A /16: services in its first 4096 addresses, the control plane in the next, pods above, 256 for a node."""

    prefix: str

    @property
    def services(self) -> str:
        return f"{self.prefix}.0.0/20"

    @property
    def control_plane(self) -> str:
        return f"{self.prefix}.16.1"

    @property
    def name_server(self) -> str:
        return f"{self.prefix}.0.10"

    @property
    def bridge(self) -> str:
        return f"penstock{self.prefix.partition('.')[2]}"

    def of_node(self, number: int) -> ipaddress.IPv4Network:
        """The addresses of a node's pods; the first is the node's own."""
        return ipaddress.IPv4Network(f"{self.prefix}.{32 + number}.0/24")


@contextmanager
def network() -> Iterator[Network]:
    """A network that nobody else has.

    Raises:
        CannotRoute: Only root may do that.
    """
    for number in _NETWORKS:
        here = Network(f"100.{number}")
        with Path(tempfile.gettempdir(), f"penstock-network-{here.prefix}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            # One that was killed has left its own behind.
            with suppress(CannotRoute):
                _ip("link", "del", here.bridge)
            _ip("link", "add", here.bridge, "type", "bridge")
            try:
                _ip("address", "add", f"{here.control_plane}/16", "dev", here.bridge)
                _ip("link", "set", here.bridge, "up")
                # The addresses of services are this machine's own, and its bridge answers for them.
                _ip("route", "add", "local", here.services, "dev", here.bridge)
                yield here
            finally:
                with suppress(CannotRoute):
                    _ip("link", "del", here.bridge)
            return
    raise CannotRoute("all networks of 100.64.0.0/10 are taken by clusters of this machine")


def _ip(*arguments: str) -> None:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=10, check=False)
    except OSError as error:
        raise CannotRoute(f"ip: {error.strerror}; Debian's iproute2 has it") from None
    if done.returncode:
        said = done.stderr.strip().replace("\n", "; ")
        raise CannotRoute(f"ip {' '.join(arguments)}: {said}; only root may do that")


class PodNetwork:
    """A network namespace for one pod, held by a process that sleeps."""

    def __init__(self, here: Network, ip: str) -> None:
        self._here = here
        self._ip = ip
        self._holder: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process whose network namespace the pod's containers enter."""
        assert self._holder is not None
        return self._holder.pid

    async def make(self) -> None:
        """Make it, with one cable to the bridge.

        Raises:
            RuntimeError: The kernel refuses.
        """
        launch = [sys.executable, "-I", "-S", with_parent.__file__, str(os.getpid())]
        self._holder = await asyncio.create_subprocess_exec(
            *launch,
            *("/usr/bin/unshare", "--net", "/bin/sh", "-c", "echo made; exec sleep infinity"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        await self._holder.stdout.readline()
        cable = f"pod{self._ip.partition('.')[2].replace('.', '-')}"
        # The kernel takes its time over a namespace that nobody is in any more, and its cable may be there still.
        if cable in (name for _, name in socket.if_nameindex()):
            with suppress(RuntimeError):
                await _batch(f"link del {cable}\n")
        await _batch(
            f"link add {cable} type veth peer name eth0 netns {self.pid}\n"
            f"link set {cable} master {self._here.bridge} up\n"
        )
        await _batch(
            f"link set lo up\naddress add {self._ip}/16 dev eth0\nlink set eth0 up\n"
            f"route add {self._here.services} via {self._here.control_plane}\n",
            *("/usr/bin/nsenter", "--target", str(self.pid), "--net"),
        )

    async def remove(self) -> None:
        """End its process; the kernel takes the namespace away once no container is left in it."""
        if self._holder is not None and self._holder.returncode is None:
            with suppress(ProcessLookupError):
                self._holder.send_signal(signal.SIGKILL)
            await self._holder.wait()


async def _batch(commands: str, *before: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *before, "ip", "-batch", "-", stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        _, said = await process.communicate(commands.encode())
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise RuntimeError(f"ip: {said.decode().strip()}")
