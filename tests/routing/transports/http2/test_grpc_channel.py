"""The way to a gRPC server, with the servers of gRPC's own library."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from protos.pem import PemError
from protos.protocol_error import ProtocolError
from protos.server_tls import ServerTls, add_port
from routing.transports.http2.grpc_channel import CallFailed, Channel
from routing.transports.http2.grpc_status import Status
from routing.transports.replica_tls import TlsFiles
from tests.certificates import Authority, client_files, server_files
from tests.loops import until

LARGEST = 32 * 1024 * 1024


@contextlib.asynccontextmanager
async def echo_at(address: str = "127.0.0.1:0", files: ServerTls | None = None) -> AsyncIterator[tuple[Any, str]]:
    """A server that says what it hears, and its address."""

    async def say(request: bytes, context: Any) -> bytes:
        if request == b"fail":
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such thing: 100 % ü")
        return request

    async def count(request: bytes, context: Any) -> None:
        for number in range(int(request)):
            await context.write(b"%d" % number)

    unary: Any = grpc.unary_unary_rpc_method_handler
    stream: Any = grpc.unary_stream_rpc_method_handler
    handlers = {"Say": unary(say), "Count": stream(count)}
    sizes = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.aio.server(options=[*sizes, ("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", handlers),))
    port = add_port(server, address, files)
    await server.start()
    try:
        yield server, address if address.startswith("unix:") else f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@contextlib.asynccontextmanager
async def channel_to(address: str, tls: TlsFiles | None = None) -> AsyncIterator[Channel]:
    channel = Channel(address, tls, LARGEST)
    try:
        yield channel
    finally:
        await channel.aclose()


class Counted:
    """How many messages came, and the end."""

    def __init__(self) -> None:
        self.messages = 0
        self.end = asyncio.get_running_loop().create_future()

    def received(self, message: bytes) -> None:
        assert message == b"%d" % self.messages
        self.messages += 1

    def ended(self, status: Status, details: str) -> None:
        self.end.set_result(status)


async def test_many_calls_and_large_messages() -> None:
    async with echo_at() as (_, address), channel_to(f"grpc://{address}") as channel:
        assert await channel.connect()
        assert not await channel.connect()
        large = bytes(range(256)) * 40_000
        answers = await asyncio.gather(*(channel.ask("/echo/Say", b"%d" % i) for i in range(500)))
        assert answers == [b"%d" % i for i in range(500)]
        assert await asyncio.gather(*(channel.ask("/echo/Say", large) for _ in range(3))) == [large] * 3
        streams = [Counted() for _ in range(50)]
        for stream in streams:
            channel.start("/echo/Count", b"200", stream)
        assert await asyncio.gather(*(stream.end for stream in streams)) == [Status.OK] * 50
        assert [stream.messages for stream in streams] == [200] * 50


async def test_errors_come_with_their_words() -> None:
    async with echo_at() as (_, address), channel_to(address) as channel:
        await channel.connect()
        with pytest.raises(CallFailed) as caught:
            await channel.ask("/echo/Say", b"fail")
        assert (caught.value.status, caught.value.details) == (Status.NOT_FOUND, "no such thing: 100 % ü")
        with pytest.raises(CallFailed) as caught:
            await channel.ask("/echo/Nothing")
        assert caught.value.status is Status.UNIMPLEMENTED
        with pytest.raises(CallFailed) as caught:
            await channel.ask("/echo/Say", bytes(LARGEST + 1))
        assert caught.value.status is Status.RESOURCE_EXHAUSTED
        assert await channel.ask("/echo/Say", b"still here") == b"still here"


async def test_a_unix_socket(state_dir: Path) -> None:
    async with echo_at(f"unix:{state_dir}/s.sock") as (_, address), channel_to(address) as channel:
        await channel.connect()
        assert await channel.ask("/echo/Say", b"x") == b"x"


async def test_a_server_that_stops_ends_its_calls_and_one_that_comes_back_is_found() -> None:
    async with echo_at() as (server, address), channel_to(address) as channel:
        await channel.connect()
        await server.stop(None)
        await until(lambda: not channel._open)
        with pytest.raises(ConnectionError):
            await channel.ask("/echo/Say", b"x")
        with pytest.raises(ConnectionError):
            await channel.connect()
        async with echo_at(address):
            assert await channel.connect()
            assert await channel.ask("/echo/Say", b"x") == b"x"


async def test_tls_and_a_certificate_of_ones_own(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, client = authority.signed("server"), authority.signed("client")

    async with echo_at(files=server_files(server, authority.ca)) as (_, address):
        async with channel_to(f"grpcs://{address}", client_files(authority, client)) as channel:
            await channel.connect()
            assert await channel.ask("/echo/Say", b"x") == b"x"
        async with channel_to(f"grpcs://{address}", client_files(authority)) as channel:
            with pytest.raises((ConnectionError, ProtocolError)):
                await channel.connect()


async def test_new_files_make_a_new_connection_and_calls_end_on_the_old_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, client = authority.signed("server"), authority.signed("client")

    async with echo_at(files=server_files(server)) as (_, address):
        tls = client_files(authority, client)
        async with channel_to(f"grpcs://{address}", tls) as channel:
            await channel.connect()
            client.replace_with(authority.signed("client-2"))
            assert channel._contexts is not None
            channel._contexts._checked_at -= 10.0
            stream = Counted()
            channel.start("/echo/Count", b"100", stream)
            assert await channel.connect()
            assert await channel.ask("/echo/Say", b"x") == b"x"
            assert await stream.end is Status.OK
            await until(lambda: len(channel._open) == 1)


@pytest.mark.parametrize("problem", ["another name", "another authority", "no TLS there", "TLS there"])
async def test_why_there_is_no_connection(tmp_path: Path, problem: str) -> None:
    authority = Authority(tmp_path)
    server = authority.signed("server", hosts=("elsewhere.example",) if problem == "another name" else ("127.0.0.1",))
    tls = client_files(Authority(tmp_path, "other") if problem == "another authority" else authority)
    files = None if problem == "no TLS there" else server_files(server)
    words = {
        "another name": "its certificate is not for 127.0.0.1$",
        "another authority": "its certificate is not accepted by .*other.pem: .*certificate",
        "no TLS there": "it does not speak TLS there; its address would be grpc://",
        "TLS there": "its address (would be|is) grpcs://",
    }

    async with echo_at(files=files) as (_, address):
        scheme = "grpc" if problem == "TLS there" else "grpcs"
        async with channel_to(f"{scheme}://{address}", tls) as channel:
            with pytest.raises((ConnectionError, ProtocolError), match=words[problem]):
                await channel.connect()
            await until(lambda: not channel._open)


async def test_the_name_of_the_certificate_can_be_given(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.signed("server", hosts=("elsewhere.example",))

    async with echo_at(files=server_files(server)) as (_, address):
        tls = client_files(authority, server_name="elsewhere.example")
        async with channel_to(f"grpcs://{address}", tls) as channel:
            await channel.connect()


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(PemError):
        Channel("grpcs://127.0.0.1:1", TlsFiles(tmp_path / "missing.pem"), LARGEST)


async def test_closing_ends_what_is_under_way() -> None:
    async with echo_at() as (_, address):
        channel = Channel(address, None, LARGEST)
        await channel.connect()
        stream = Counted()
        channel.start("/echo/Count", b"100000000", stream)
        await channel.aclose()
        assert await stream.end is Status.UNAVAILABLE
