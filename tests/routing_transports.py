"""A transport to a fake upstream, and requests on it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from protos.errors import PenstockError
from protos.types import Finish, Payload, Role, Sampling, Shape, Submit
from routing.contracts.transport import Event, Leg, Relay
from routing.transports.openai.openai_connection import OpenAIConnection
from routing.transports.openai.settings import API_FEATURES, KeyedUpstream, OpenAISettings, no_key
from routing.transports.replica_connection import Listener, TransportContext
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.replica_tls import TlsFiles
from routing.transports.shared_parts import SharedParts
from tests.loops import until
from tests.upstreams import Upstream


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Client:
    """The `Receiver` of one request, and its reader."""

    sequence = 0
    most_tokens = 0

    def __init__(self, sequences: int = 1) -> None:
        self.sequences = sequences
        self.relay: Relay | None = None
        self.cached: int | None = None
        self.finishes: list[Finish] = []
        self.error: PenstockError | None = None
        self.leg: Leg | None = None

    @property
    def sink(self) -> "Client":
        return self

    def put(self, event: Event) -> None:
        raise AssertionError(event)

    def started(self, cached_tokens: int) -> None:
        assert self.cached is None and self.error is None
        self.cached = cached_tokens

    def relayed(self, relay: Relay) -> None:
        assert self.relay is None and self.error is None
        self.relay = relay

    def finished(self, index: int, finish: Finish) -> None:
        assert index == len(self.finishes) and self.error is None
        self.finishes.append(finish)
        if self.leg is not None and len(self.finishes) == self.sequences:
            self.leg.close()

    def lost(self, error: PenstockError) -> None:
        assert self.error is None
        self.error = error
        assert self.leg is not None
        self.leg.close()

    async def begun(self) -> "Client":
        await until(lambda: self.relay or self.error)
        return self

    async def read(self) -> bytes:
        """All that there is to read. Raises PenstockError."""
        assert self.relay is not None, repr(self.error and self.error.detail)
        parts = []
        while part := await self.relay.read():
            parts.append(part)
        return b"".join(parts)

    async def answer(self) -> bytes:
        return await (await self.begun()).read()


class OpenAITransport:
    """One replica of engine `openai`; `failing` is why it should be ejected."""

    def __init__(
        self,
        fake: Upstream,
        *,
        id_: str = "p/0",
        tls: TlsFiles | None = None,
        key: Any = no_key,
        shared: SharedParts | None = None,
        **settings: Any,
    ) -> None:
        self.clock = Clock()
        self.failing: list[str] = []
        fixed: dict[str, Any] = {"model": "theirs", "metrics_of": "none", "health_seconds": 0.0}
        spec = ReplicaSpec(
            id_, fake.url, "p", "ours", "openai", Shape(), Role.BOTH, 1, 1,
            features=API_FEATURES, tls=tls, settings=KeyedUpstream(OpenAISettings(**(fixed | settings)), key),
        )  # fmt: skip
        listener = Listener(failing=lambda _, why: self.failing.append(why))
        self.connection = OpenAIConnection(
            spec, TransportContext("w", listener, self.clock, shared=shared or SharedParts())
        )

    def ask(
        self, *, stream: bool = True, usage: bool = False, n: int = 1, trace: str = "", salt: str = "", **body: Any
    ) -> Client:
        known = {"model": "ours", "messages": [], "stream": stream}
        payload = Payload("/chat/completions", json.dumps(known | body).encode(), stream, usage, "ours")
        client = Client(n)
        submit = Submit("req_1", [1, 2, 3], 100, Sampling(n=n), payload=payload, trace=trace, cache_salt=salt)
        client.leg = self.connection.open(submit, receiver=client)
        return client

    def is_connected(self) -> bool:
        return self.connection.connected

    @property
    def is_empty(self) -> bool:
        return not self.connection.in_flight and not self.connection._flights


@contextlib.asynccontextmanager
async def connected(fake: Upstream, **options: Any) -> AsyncIterator[OpenAITransport]:
    """A transport that has found its upstream; nothing is left of it after the test."""
    transport = OpenAITransport(fake, **options)
    transport.connection.start()
    try:
        await until(lambda: transport.connection.connected)
        yield transport
        assert transport.is_empty
    finally:
        await transport.connection.aclose()
    assert transport.connection._pool.connections == 0
    await until(lambda: fake.open == 0, lambda: "a connection was left open")
    await asyncio.sleep(0)
