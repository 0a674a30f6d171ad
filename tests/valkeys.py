"""Valkey servers and Sentinels on TCP ports of this machine, and a proxy before them whose target changes."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import redis

from gateway.store import with_parent
from gateway.store.embedded import _binary
from tests.certificates import Signed
from tests.loops import SOON_SECONDS
from tests.ports import free_port

#: In milliseconds: how often a Sentinel asks and tells, and after which stall of its own it trusts nothing for a while.
_PERIODS = ("info-period", 100, "ping-period", 100, "ask-period", 100, "publish-period", 100, "tilt-trigger", 60_000)


@dataclass(frozen=True)
class Tls:
    """Certificates of servers, and a program that has TLS, which the wheel's does not."""

    program: str
    signed: Signed
    authority: Path

    @property
    def options(self) -> tuple[str, ...]:
        files = ("--tls-cert-file", str(self.signed.certificate), "--tls-key-file", str(self.signed.key))
        return (
            *files, "--tls-ca-cert-file", str(self.authority), "--tls-auth-clients", "no", "--tls-replication", "yes"
        )  # fmt: skip


class Valkey:
    """One server; every test's own, so it may be stopped, demoted and given a password."""

    def __init__(self, folder: Path, *arguments: str, password: str | None = None, tls: Tls | None = None) -> None:
        """`arguments` come first: a configuration file, `--sentinel`, options. `password` is what they set."""
        self.port = free_port()
        self._password = password
        self._tls = tls
        self.folder = folder / str(self.port)
        self.folder.mkdir(exist_ok=True)
        self._arguments = arguments
        self.start()

    def start(self) -> None:
        """Start it, or start it again, and wait until it listens."""
        port = str(self.port)
        options = ("--port", port) if self._tls is None else ("--port", "0", "--tls-port", port, *self._tls.options)
        program = _binary() if self._tls is None else self._tls.program
        # A test run that is killed leaves none behind.
        launch = [sys.executable, "-I", "-S", with_parent.__file__, str(os.getpid()), program]
        place = ("--bind", "127.0.0.1", "--dir", str(self.folder))
        self.process = subprocess.Popen(
            [*launch, *self._arguments, *options, *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        eventually(self._listens)

    def _listens(self) -> bool:
        with self.client() as client:
            return bool(client.ping())

    def client(self) -> redis.Redis:
        authority = None if self._tls is None else str(self._tls.authority)
        return redis.Redis(
            host="127.0.0.1", port=self.port, password=self._password, ssl=self._tls is not None, ssl_ca_certs=authority
        )

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


def eventually(condition: Callable[[], object]) -> None:
    """Servers start and find each other by themselves, and nothing tells when they have."""
    deadline = time.monotonic() + SOON_SECONDS
    while True:
        with contextlib.suppress(redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            if condition():
                return
        assert time.monotonic() < deadline, "the servers do not get ready"
        time.sleep(0.02)


@contextlib.contextmanager
def valkeys(
    folder: Path, number: int, *, password: str | None = None, tls: Tls | None = None
) -> Iterator[list[Valkey]]:
    """So many servers, the first of which is the others' primary; they keep nothing on disk."""
    login = () if password is None else ("--requirepass", password, "--masterauth", password)
    # A primary would wait five seconds for further replicas before it sends anything to the first one.
    options = ("--save", "", "--repl-diskless-sync-delay", "0", *login)
    servers: list[Valkey] = []
    try:
        servers.extend(Valkey(folder, *options, password=password, tls=tls) for _ in range(number))
        for server in servers[1:]:
            server.follow(servers[0])
            eventually(partial(_is_linked, server))
        yield servers
    finally:
        for server in servers:
            server.stop()


def _is_linked(server: Valkey) -> bool:
    with server.client() as client:
        info = client.info("replication")
    assert isinstance(info, dict)
    return bool(info.get("master_link_status") == "up")


@contextlib.contextmanager
def sentinels(
    folder: Path,
    number: int,
    primary: Valkey,
    *,
    servers: str | None = None,
    own: str | None = None,
    tls: Tls | None = None,
) -> Iterator[list[Valkey]]:
    """Sentinels that know a primary as `main`; `servers` is the servers' password, `own` that of the Sentinels."""
    made: list[Valkey] = []
    lines = [
        f"sentinel monitor main 127.0.0.1 {primary.port} {number // 2 + 1}",
        # Servers of a busy machine are silent for a while, too.
        "sentinel down-after-milliseconds main 2000",
        "sentinel failover-timeout main 2000",
    ]
    if servers is not None:
        lines.append(f"sentinel auth-pass main {servers}")
    if own is not None:
        lines += [f"requirepass {own}", f"sentinel sentinel-pass {own}"]
    try:
        for index in range(number):
            settings = folder / f"sentinel-{index}.conf"
            settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
            made.append(Valkey(folder, str(settings), "--sentinel", password=own, tls=tls))
        for one in made:
            with one.client() as client:
                # Otherwise it looks at servers and at other Sentinels every few seconds.
                client.execute_command("SENTINEL DEBUG", *_PERIODS)
        for one in made:
            eventually(partial(_knows, one, number - 1))
        yield made
    finally:
        for one in made:
            one.stop()


def _knows(sentinel: Valkey, others: int) -> bool:
    """Whether a Sentinel knows the others, and a replica that it may promote."""
    with sentinel.client() as client:
        state = client.sentinel_masters()["main"]
    return bool(state["num-other-sentinels"] == others and state["num-slaves"])


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
