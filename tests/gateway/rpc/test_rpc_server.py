"""A gRPC server of bytes: what methods raise, what clients that leave do, health, renewed certificates."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gateway.rpc.rpc_server import (
    AddressInUse,
    CallRefused,
    CallUnavailable,
    RpcServer,
    Service,
    Stream,
)
from protos.pem import PemError
from protos.server_tls import ServerTls
from tests.certificates import Authority
from tests.loops import until


class Methods:
    """Methods that do as they are told, by the request."""

    def __init__(self) -> None:
        self.left = 0

    async def unary(self, request: bytes) -> bytes:
        if request == b"refuse":
            raise CallRefused("field: it is wrong")
        if request == b"later":
            raise CallUnavailable("not now")
        if request == b"defect":
            raise ZeroDivisionError("secret")
        return request

    async def replies(self, request: bytes) -> AsyncIterator[bytes]:
        yield b"first"
        await self.unary(request)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.left += 1

    async def dialogue(self, stream: Stream) -> None:
        try:
            while (message := await stream.read()) is not None:
                await stream.write(await self.unary(message))
        finally:
            self.left += 1

    @property
    def service(self) -> Service:
        return Service(
            "a.B", unary={"One": self.unary}, replies={"Many": self.replies}, dialogues={"Both": self.dialogue}
        )


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Methods, Any]]:
    methods = Methods()
    server = RpcServer([methods.service])
    port = server.listen("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield methods, channel
    finally:
        await server.aclose(0.0)


async def test_bytes_come_back() -> None:
    async with served() as (_, channel):
        assert await channel.unary_unary("/a.B/One")(b"x", timeout=5) == b"x"


@pytest.mark.parametrize(
    ("request_", "code", "details"),
    [
        (b"refuse", grpc.StatusCode.INVALID_ARGUMENT, "field: it is wrong"),
        (b"later", grpc.StatusCode.UNAVAILABLE, "not now"),
    ],
)
async def test_what_a_method_raises_is_the_calls_status(request_: bytes, code: grpc.StatusCode, details: str) -> None:
    async with served() as (_, channel):
        both = channel.stream_stream("/a.B/Both")()
        await both.write(request_)
        many = channel.unary_stream("/a.B/Many")(request_, timeout=5)
        assert await many.read() == b"first"
        for call in (channel.unary_unary("/a.B/One")(request_, timeout=5), both, many):
            assert await call.code() is code
            assert await call.details() == details


async def test_a_defect_ends_its_call_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as (_, channel):
        both = channel.stream_stream("/a.B/Both")()
        await both.write(b"defect")
        many = channel.unary_stream("/a.B/Many")(b"defect", timeout=5)
        assert await many.read() == b"first"
        for call in (channel.unary_unary("/a.B/One")(b"defect", timeout=5), both, many):
            assert await call.code() is grpc.StatusCode.INTERNAL
            assert await call.details() == "a defect of the server"
        assert caplog.text.count("ZeroDivisionError: secret") == 3
        assert await channel.unary_unary("/a.B/One")(b"x", timeout=5) == b"x"


async def test_a_client_that_leaves_ends_its_calls() -> None:
    async with served() as (methods, channel):
        both, many = channel.stream_stream("/a.B/Both")(), channel.unary_stream("/a.B/Many")(b"x")
        await both.write(b"x")
        assert await both.read() == b"x"
        assert await many.read() == b"first"
        both.cancel()
        many.cancel()
        await until(lambda: methods.left == 2)


async def test_calls_that_are_open_end_with_the_server() -> None:
    async with served() as (methods, channel):
        both = channel.stream_stream("/a.B/Both")()
        await both.write(b"x")
        assert await both.read() == b"x"
    assert methods.left == 1


async def test_an_unknown_method_is_said_so() -> None:
    async with served() as (_, channel):
        call = channel.unary_unary("/a.B/Nothing")(b"", timeout=5)
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_an_address_in_use_is_named() -> None:
    first, second = RpcServer([]), RpcServer([])
    port = first.listen("127.0.0.1:0")
    await first.start()
    with pytest.raises(AddressInUse, match=f"127.0.0.1:{port}"):
        second.listen(f"127.0.0.1:{port}")
    await first.aclose(0.0)
    await second.aclose(0.0)


async def test_new_connections_get_a_renewed_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed, fresh = authority.signed(), Authority(tmp_path, "other").signed("fresh")
    methods = Methods()
    server = RpcServer([methods.service])
    port = server.listen("127.0.0.1:0", ServerTls(signed.certificate, signed.key))
    await server.start()
    for trusted, name in ((authority.ca, "authority"), (tmp_path / "other.pem", "other")):
        credentials = grpc.ssl_channel_credentials(trusted.read_bytes())
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            one: Any = channel.unary_unary("/a.B/One")
            assert await one(name.encode(), timeout=5) == name.encode()
        signed.replace_with(fresh)
    await server.aclose(0.0)


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    server = RpcServer([])
    with pytest.raises(PemError, match="missing"):
        server.listen("127.0.0.1:0", ServerTls(tmp_path / "missing.pem", tmp_path / "missing.key"))
    await server.aclose(0.0)
