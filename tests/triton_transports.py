"""Transports to the server of tests/fake_triton.py."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from gateway.text.tokens.text_codec import TokenizerText
from protos.types import Role, Shape
from routing.transports.replica_connection import TransportContext
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.transport_registry import connection_to
from routing.transports.triton.settings import Kind, TritonOptions, TritonSettings
from routing.transports.triton.triton_connection import TritonConnection
from tests.fake_triton import FakeTriton
from tests.harness import tekken
from tests.loops import until


def settings_of(kind: Kind = Kind.ENGINE, **options: Any) -> TritonSettings:
    codec = TokenizerText(tekken().tokenizer) if kind.takes_text else None
    end_id = None if kind.takes_text else 2
    fixed: dict[str, Any] = {"model": "tensorrt_llm", "kind": kind.value, "codec": codec, "end_id": end_id}
    given = fixed | options
    own = {name: given.pop(name) for name in TritonOptions.__struct_fields__ if name in given}
    return TritonSettings(TritonOptions(**own), **given)


def transport_to(address: str, settings: TritonSettings) -> TritonConnection:
    spec = ReplicaSpec(
        "pool/0", f"grpc://{address}", "pool", "m", "triton", Shape(tp=2), Role.BOTH, 1, 64, settings=settings
    )
    transport = connection_to(spec, TransportContext("test"))
    assert isinstance(transport, TritonConnection)
    return transport


@contextlib.asynccontextmanager
async def connected(fake: FakeTriton, **options: Any) -> AsyncIterator[TritonConnection]:
    async with fake.serving() as address:
        transport = transport_to(address, settings_of(fake.kind, **options))
        transport.start()
        try:
            await until(lambda: transport.connected, lambda: transport.health.reason)
            yield transport
        finally:
            await transport.aclose()
