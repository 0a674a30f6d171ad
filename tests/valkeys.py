"""Valkey servers and Sentinels on TCP ports of this machine, and a proxy before them whose target changes."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import redis

from gateway.store import with_parent
from gateway.store.embedded import _binary
from tests.ports import free_port


class Valkey:
    """One server; every test's own, so it may be stopped, demoted and given a password."""

    def __init__(self, folder: Path, *arguments: str, port: int | None = None) -> None:
        """`arguments` come first: a configuration file, `--sentinel`, options."""
        self.port = port or free_port()
        self.folder = folder / str(self.port)
        self.folder.mkdir(exist_ok=True)
        self._arguments = arguments
        self.start()

    def start(self) -> None:
        """Start it, or start it again, and wait until it listens."""
        options = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder))
        # A test run that is killed leaves none behind.
        launch = [sys.executable, "-I", "-S", with_parent.__file__, str(os.getpid()), _binary()]
        self.process = subprocess.Popen(
            [*launch, *self._arguments, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        eventually(self._listens)

    def _listens(self) -> bool:
        try:
            with self.client() as client:
                client.ping()
        except redis.exceptions.AuthenticationError:
            return True
        return True

    def client(self, password: str | None = None) -> redis.Redis:
        return redis.Redis(host="127.0.0.1", port=self.port, password=password)

    def follow(self, primary: "Valkey | None") -> None:
        """Become a replica of another server, or nobody's. Connections stay open."""
        with self.client() as client:
            if primary is None:
                client.execute_command("REPLICAOF", "NO", "ONE")
            else:
                client.execute_command("REPLICAOF", "127.0.0.1", primary.port)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def eventually(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Servers start and find each other by themselves, and nothing tells when they have."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            if condition():
                return
        assert time.monotonic() < deadline, "the servers do not get ready"
        time.sleep(0.02)


@contextlib.contextmanager
def valkeys(folder: Path, number: int, *arguments: str) -> Iterator[list[Valkey]]:
    """So many servers, the first of which is the others' primary; they keep nothing on disk."""
    servers: list[Valkey] = []
    try:
        servers.extend(Valkey(folder, "--save", "", *arguments) for _ in range(number))
        for server in servers[1:]:
            server.follow(servers[0])
            eventually(lambda server=server: _is_linked(server))
        yield servers
    finally:
        for server in servers:
            server.stop()


def _is_linked(server: Valkey) -> bool:
    with server.client() as client:
        info = client.info("replication")
    assert isinstance(info, dict)
    return bool(info.get("master_link_status") == "up")


class Proxy:
    """Passes connections on to `target`; those that are open stay where they are, as behind a name that moves."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.connections = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    async def passes(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, onwards = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers |= {writer, onwards}
        await asyncio.gather(_pump(reader, onwards), _pump(there, writer))

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def proxy_to(target: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(target)
    server = await asyncio.start_server(proxy.passes, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.close()
        # Passing on ends with the connections.
        await asyncio.sleep(0)
