"""What is made of the files: channels that are kept and replaced, and contexts for HTTP."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from protos.pem import PemError
from protos.server_tls import ServerTls, add_port
from routing.transports.replica_tls import (
    RenewedChannel,
    TlsFiles,
    open_channel,
    readable_problem,
    renewed_ssl_context,
    ssl_context,
)
from tests.certificates import Authority, client_files, server_files
from tests.loops import until

LOCAL = [("grpc.use_local_subchannel_pool", 1)]


class Echo:
    """A gRPC server whose one method answers when it is let, with what its peer's certificate is for."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.waiting = 0

    async def answer(self, request: bytes, context: Any) -> bytes:
        self.waiting += 1
        if request == b"wait":
            await self.go.wait()
        names = context.auth_context().get("x509_common_name", [b""])
        return bytes(names[0])


@contextlib.asynccontextmanager
async def echo_at(files: ServerTls | None) -> AsyncIterator[tuple[Echo, str]]:
    echo = Echo()
    handler: Any = grpc.unary_unary_rpc_method_handler(echo.answer)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", {"Say": handler}),))
    port = add_port(server, "127.0.0.1:0", files)
    await server.start()
    try:
        yield echo, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def say(channel: grpc.aio.Channel, what: bytes = b"") -> Any:
    method: Any = channel.unary_unary("/echo/Say")
    return method(what)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


class Kept:
    """A channel that is kept, its clock, and what it says."""

    def __init__(self, address: str, tls: TlsFiles) -> None:
        self.clock = Clock()
        self.renewed = RenewedChannel(address, tls, LOCAL, clock=self.clock)

    async def say(self, what: bytes = b"") -> bytes:
        with self.renewed.borrowed() as channel:
            return bytes(await say(channel, what))

    @property
    def channel(self) -> grpc.aio.Channel:
        with self.renewed.borrowed() as channel:
            return channel

    @property
    def open(self) -> int:
        return len(self.renewed._calls) + len(self.renewed._closing)


async def test_a_kept_channel_is_replaced_when_its_files_change(authority: Authority) -> None:
    mine = authority.signed("first")
    async with echo_at(server_files(authority.signed(), authority.ca)) as (echo, address):
        kept = Kept(f"grpcs://{address}", client_files(authority, mine))
        old = kept.channel
        assert await kept.say() == b"first"
        slow = asyncio.create_task(kept.say(b"wait"))
        await until(lambda: echo.waiting == 2)
        mine.replace_with(authority.signed("second"))
        assert kept.channel is old
        kept.clock.now = 1.0
        assert kept.channel is not old
        assert await kept.say() == b"second"
        assert not slow.done()
        assert kept.open == 2
        echo.go.set()
        assert await slow == b"first"
        await until(lambda: kept.open == 1)
        await kept.renewed.aclose()


async def test_a_channel_without_calls_is_closed_at_once_when_it_is_replaced(authority: Authority) -> None:
    kept = Kept("grpcs://127.0.0.1:1", client_files(authority))
    old = kept.channel
    authority.ca.write_bytes(authority.ca.read_bytes() * 2)
    kept.clock.now = 1.0
    assert kept.channel is not old
    await until(lambda: kept.open == 1)
    assert old.get_state() is grpc.ChannelConnectivity.SHUTDOWN
    await kept.renewed.aclose()


async def test_a_kept_channel_stays_while_the_new_files_are_broken(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    mine = authority.signed("first")
    async with echo_at(server_files(authority.signed(), authority.ca)) as (_, address):
        kept = Kept(f"grpcs://{address}", client_files(authority, mine))
        old = kept.channel
        mine.key.write_text("no key")
        for kept.clock.now in (1.0, 2.0, 3.0):
            assert kept.channel is old
            assert await kept.say() == b"first"
        await kept.renewed.aclose()
    (told,) = caplog.records
    assert "first.key has no private key in PEM form" in told.getMessage()


async def test_closing_cancels_what_still_runs_on_replaced_channels(authority: Authority) -> None:
    mine = authority.signed("first")
    async with echo_at(server_files(authority.signed(), authority.ca)) as (echo, address):
        kept = Kept(f"grpcs://{address}", client_files(authority, mine))
        calls = [asyncio.create_task(kept.say(b"wait"))]
        await until(lambda: echo.waiting == 1)
        mine.replace_with(authority.signed("second"))
        kept.clock.now = 1.0
        calls.append(asyncio.create_task(kept.say(b"wait")))
        await until(lambda: echo.waiting == 2)
        await kept.renewed.aclose()
        await until(lambda: all(call.done() for call in calls))
        assert all(call.cancelled() for call in calls)
        echo.go.set()


async def test_a_plain_channel_is_never_replaced(authority: Authority) -> None:
    async with echo_at(None) as (_, address):
        kept = Kept(f"grpc://{address}", client_files(authority))
        old = kept.channel
        authority.ca.write_text("")
        kept.clock.now = 9.0
        assert kept.channel is old
        assert await kept.say() == b""
        await kept.renewed.aclose()


@pytest.mark.parametrize("opened", [lambda tls: open_channel("grpcs://h:1", tls, ()), ssl_context])
def test_a_file_that_cannot_be_used_is_named(opened: Callable[[TlsFiles], object], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files, other = authority.signed(), authority.signed("other")
    with pytest.raises(PemError, match="none cannot be read"):
        opened(TlsFiles(tmp_path / "none"))
    with pytest.raises(PemError, match=r"other\.key is not the key"):
        opened(TlsFiles(authority.ca, files.certificate, other.key))
    (tmp_path / "empty.pem").touch()
    with pytest.raises(PemError, match=r"empty\.pem has no certificate"):
        opened(TlsFiles(tmp_path / "empty.pem"))


async def test_a_context_for_http_shows_its_certificate_and_follows_its_files(authority: Authority) -> None:
    seen: list[Any] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peercert"))
        writer.close()

    files = authority.signed()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.ca))
    theirs.verify_mode = ssl.CERT_REQUIRED
    theirs.load_cert_chain(files.certificate, files.key)
    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=theirs)
    port = server.sockets[0].getsockname()[1]
    mine = authority.signed("mine")
    contexts = renewed_ssl_context(client_files(authority, mine))
    contexts._check_seconds = 0.0
    for name in ("mine", "renewed"):
        if name != "mine":
            mine.replace_with(authority.signed(name))
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=contexts.get())
        await until(lambda: seen)
        assert ((("commonName", name),),) == seen.pop()["subject"]
        writer.close()
        await writer.wait_closed()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", port, ssl=ssl_context(None))
    server.close()
    await server.wait_closed()


def test_words_for_other_problems_stay() -> None:
    assert readable_problem("connection refused", "grpcs://h:1", None) == "connection refused"
    assert readable_problem("UNAVAILABLE: Socket closed", "grpc://h:1", None).startswith(
        "UNAVAILABLE: Socket closed; perhaps"
    )
