"""The HTTP client against real sockets: answers in every form, bounds, silence, and connections that are kept."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.transports.http.buffered_exchange import get
from routing.transports.http.connection_pool import ConnectionPool
from routing.transports.http.http1_connection import MAX_HEAD_BYTES, MAX_HEADERS, HttpConnection
from routing.transports.http.http1_request import Fault, Headers, Http1Request, HttpFailure
from routing.transports.http.origin import head, is_header_value, origin_of
from routing.transports.http.upstream_timeouts import Timeouts
from routing.transports.replica_tls import TlsFiles, renewed_ssl_context
from tests.certificates import Authority
from tests.loops import until
from tests.upstreams import LAST, STREAM, Caller, Heard, Upstream, chunk, plain, streamed, upstream

#: What pools have by themselves.
TIMEOUTS = Timeouts()


class Ear(Http1Request):
    """Notes what it is told."""

    def __init__(self, request: bytes = b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n") -> None:
        super().__init__(request)
        self.status = 0
        self.headers: Headers = {}
        self.parts: list[bytes] = []
        self.over = False
        self.failure: HttpFailure | None = None

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    def answered(self, status: int, headers: Headers) -> None:
        assert not self.status
        self.status, self.headers = status, headers

    def received(self, data: bytes) -> None:
        assert self.status and not self.over
        self.parts.append(data)

    def ended(self) -> None:
        assert not self.over
        self.over = True

    def failed(self, failure: HttpFailure) -> None:
        assert not self.over
        self.over, self.failure = True, failure

    async def heard(self) -> "Ear":
        await until(lambda: self.over)
        return self

    @property
    def fault(self) -> Fault | None:
        return self.failure.fault if self.failure is not None else None


@contextlib.asynccontextmanager
async def pool_of(*, timeouts: Timeouts = TIMEOUTS, most: int = 64) -> AsyncIterator[tuple[Upstream, ConnectionPool]]:
    async with upstream() as fake:
        pool = ConnectionPool(origin_of(fake.url), timeouts=timeouts, most=most)
        try:
            yield fake, pool
        finally:
            await pool.aclose()
        assert pool.connections == 0
        await until(lambda: fake.open == 0, lambda: "a connection was left open")


def says(data: bytes, *, closes: bool = True) -> Callable[[Caller, Heard], Any]:
    async def behave(caller: Caller, heard: Heard) -> bool:
        await caller.say(data)
        return not closes

    return behave


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (plain(b"hello"), True),
        (plain(b"hello", connection="close"), False),
        (streamed(b"hel", b"lo"), True),
        (STREAM + chunk(b"hello") + b"0\r\nx-trailer: 1\r\n\r\n", True),
        (STREAM + b"3;ext=1\r\nhel\r\n2\r\nlo\r\n" + LAST, True),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello", False),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + plain(b"hello"), True),
        (plain(b"hello") + b"and more", False),
        (plain(b"hello") + plain(b"an answer to nothing"), False),
    ],
)
async def test_an_answer_in_every_form_it_may_have(data: bytes, kept: bool) -> None:
    async with pool_of() as (fake, pool):
        fake.behaves = says(data)
        pool.send(ear := Ear())
        await ear.heard()
        assert (ear.failure, ear.status, ear.body) == (None, 200, b"hello")
        if not kept:
            await until(lambda: pool.connections == 0)


@pytest.mark.parametrize(
    ("data", "fault", "said"),
    [
        (b"", Fault.CUT, "without an answer"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", Fault.NONSENSE, "not HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", Fault.CUT, "within its answer"),
        (STREAM + chunk(b"hello"), Fault.CUT, "within its answer"),
        (STREAM + b"zz\r\n", Fault.NONSENSE, "not HTTP"),
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", Fault.NONSENSE, "protocol"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nx", Fault.NONSENSE, "coding"),
        (plain(b"\x1f\x8b", content_encoding="gzip"), Fault.NONSENSE, "coding"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello", Fault.NONSENSE, "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * (MAX_HEADERS + 1) + b"\r\n", Fault.NONSENSE, "headers"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2 * MAX_HEAD_BYTES, Fault.NONSENSE, "bytes"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2 * MAX_HEAD_BYTES + b"\r\n\r\n", Fault.NONSENSE, "bytes"),
        (STREAM + chunk(b"x") + b"0\r\ny: " + b"z" * 4 * MAX_HEAD_BYTES, Fault.NONSENSE, "without a body"),
        (STREAM + b"5;" + b"e" * 4 * MAX_HEAD_BYTES, Fault.NONSENSE, "without a body"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 4000, Fault.NONSENSE, "without a body"),
    ],
)
async def test_what_is_no_answer_ends_the_exchange_and_its_connection(data: bytes, fault: Fault, said: str) -> None:
    async with pool_of() as (fake, pool):
        fake.behaves = says(data)
        pool.send(ear := Ear())
        await ear.heard()
        assert ear.fault is fault
        assert ear.failure is not None and said in ear.failure.problem
        await until(lambda: pool.connections == 0)


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(1, 60), max_size=30), data=st.sampled_from([plain(b"hello"), streamed(b"hel", b"lo")]))
def test_it_does_not_matter_how_an_answer_is_cut(cuts: list[int], data: bytes) -> None:
    class Wire:
        def write(self, data: bytes) -> None: ...
        def is_closing(self) -> bool:
            return False

        def get_write_buffer_size(self) -> int:
            return 0

    class Owner:
        def release(self, connection: HttpConnection) -> None: ...
        def lost(self, connection: HttpConnection) -> None: ...
        def resend(self, exchange: Http1Request) -> None: ...

    class TickLimits:
        first_byte = between_bytes = idle = 10

    connection = HttpConnection(Owner(), TickLimits())
    connection.connection_made(Wire())  # type: ignore[arg-type]
    connection.take(ear := Ear())
    at = 0
    for cut in [*cuts, len(data)]:
        if data[at : at + cut]:
            connection.data_received(data[at : at + cut])
        at += cut
    assert (ear.over, ear.failure, ear.body) == (True, None, b"hello")


async def test_a_connection_is_kept_and_used_again() -> None:
    async with pool_of() as (fake, pool):
        for _ in range(5):
            pool.send(ear := Ear())
            await ear.heard()
        assert (fake.accepted, pool.connections) == (1, 1)
        ears = [Ear() for _ in range(3)]
        for ear in ears:
            pool.send(ear)
        for ear in ears:
            assert (await ear.heard()).failure is None
        assert fake.accepted == 3


async def test_a_kept_connection_that_was_closed_meanwhile_is_replaced_once() -> None:
    async with pool_of() as (fake, pool):
        pool.send(ear := Ear())
        await ear.heard()
        fake.behaves = says(b"")
        pool.send(ear := Ear())
        await ear.heard()
        # The second connection was fresh, so that its end is an answer of a kind.
        assert (ear.fault, fake.accepted, len(fake.heard)) == (Fault.CUT, 2, 3)


async def test_nothing_is_sent_twice_once_a_byte_has_come() -> None:
    async with pool_of() as (fake, pool):
        pool.send(ear := Ear())
        await ear.heard()
        fake.behaves = says(b"HTTP/1.1 200")
        pool.send(ear := Ear())
        await ear.heard()
        assert (ear.fault, fake.accepted, len(fake.heard)) == (Fault.CUT, 1, 2)


async def test_silence_ends_an_exchange() -> None:
    async with pool_of(timeouts=Timeouts(first_byte=1.0, between_bytes=2.0)) as (fake, pool):
        told = asyncio.Event()

        async def behave(caller: Caller, heard: Heard) -> None:
            if len(fake.heard) == 2:
                await caller.say(STREAM + chunk(b"x"))
            told.set()
            await caller.gone()

        fake.behaves = behave
        for said, ticks in (("nothing of its answer", 4), ("stood still", 8)):
            pool.send(ear := Ear())
            await told.wait()
            told.clear()
            if said == "stood still":
                await until(partial(getattr, ear, "body"))
            for _ in range(ticks + 2):
                assert not ear.over
                pool.tick()
            assert ear.fault is Fault.TIMEOUT
            assert ear.failure is not None and said in ear.failure.problem


async def test_a_connection_without_requests_is_given_up_in_the_end() -> None:
    async with pool_of() as (_, pool):
        pool.send(ear := Ear())
        await ear.heard()
        for _ in range(200):
            pool.tick()
        assert pool.connections == 0


async def test_what_is_not_read_does_not_come() -> None:
    async with pool_of() as (fake, pool):
        sent = 0

        async def behave(caller: Caller, heard: Heard) -> None:
            nonlocal sent
            await caller.say(STREAM)
            for _ in range(512):
                await caller.say(chunk(b"x" * 65536))
                sent += 65536
            await caller.say(LAST)
            await caller.gone()

        class Slow(Ear):
            def received(self, data: bytes) -> None:
                super().received(data)
                self.pause()

        fake.behaves = behave
        pool.send(ear := Slow())
        await until(lambda: ear.body)
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.05)
        assert len(ear.body) < 1 << 20
        assert sent < 16 << 20
        for _ in range(1000):
            pool.tick()  # its own silence is not the upstream's
        assert ear.failure is None
        while not ear.over:
            ear.resume()
            await asyncio.sleep(0)
        assert (ear.failure, len(ear.body)) == (None, 32 << 20)


@pytest.mark.parametrize("when", ["connecting", "waiting", "answering"])
async def test_a_cancel_closes_the_connection_and_is_the_last_word(when: str) -> None:
    async with pool_of() as (fake, pool):

        async def behave(caller: Caller, heard: Heard) -> None:
            if when == "answering":
                await caller.say(STREAM + chunk(b"x"))
            await caller.gone()

        fake.behaves = behave
        pool.send(ear := Ear())
        if when != "connecting":
            await until(lambda: fake.heard if when == "waiting" else ear.body)
        ear.cancel()
        ear.cancel()
        await until(lambda: pool.connections == 0 and fake.open == 0)
        assert not ear.over


async def test_the_number_of_connections_is_bounded() -> None:
    async with pool_of(most=3) as (fake, pool):

        async def behave(caller: Caller, heard: Heard) -> None:
            await caller.gone()

        fake.behaves = behave
        ears = [Ear() for _ in range(5)]
        for ear in ears:
            pool.send(ear)
        await until(lambda: sum(ear.over for ear in ears) == 2)
        assert {ear.fault for ear in ears if ear.over} == {Fault.UNREACHABLE}
        assert pool.connections == 3
        for ear in ears:
            ear.cancel()


async def test_a_port_where_nothing_listens() -> None:
    async with upstream() as fake:
        url = fake.url
    pool = ConnectionPool(origin_of(url))
    pool.send(ear := Ear())
    await ear.heard()
    assert ear.fault is Fault.UNREACHABLE
    await pool.aclose()


async def test_a_name_that_does_not_exist() -> None:
    pool = ConnectionPool(origin_of("http://nowhere.invalid/v1"))
    pool.send(ear := Ear())
    await ear.heard()
    assert ear.failure is not None and "looked up" in ear.failure.problem
    await pool.aclose()


@pytest.mark.parametrize(
    ("hosts", "name", "accepted"),
    [(("127.0.0.1",), "", True), (("api.example",), "api.example", True), (("api.example",), "", False)],
)
async def test_a_certificate_must_be_for_the_host(
    tmp_path: Path, hosts: tuple[str, ...], name: str, accepted: bool
) -> None:
    authority = Authority(tmp_path)
    signed = authority.signed(hosts=hosts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)

    async with upstream(context) as fake:
        contexts = renewed_ssl_context(TlsFiles(authority.ca))
        pool = ConnectionPool(origin_of(fake.url), contexts=contexts.get, server_name=name)
        pool.send(ear := Ear())
        await ear.heard()
        if accepted:
            assert (ear.failure, ear.status) == (None, 200)
        else:
            assert ear.failure is not None and "certificate" in ear.failure.problem
        await pool.aclose()


async def test_get_is_bounded_and_follows_nothing() -> None:
    async with pool_of() as (fake, pool):
        fake.health = plain(b"moved", "302 Found", location="http://127.0.0.1:1/")
        fake.pages = {"/metrics": plain(b"x" * 1000)}
        assert await get(pool, "/v1/models", {"x-a": "b"}, 1000, 5.0) == (302, b"moved")
        assert fake.looks[0].headers["x-a"] == "b"
        assert await get(pool, "/metrics", {}, 1000, 5.0) == (200, b"x" * 1000)
        with pytest.raises(HttpFailure, match="more than 999"):
            await get(pool, "/metrics", {}, 999, 5.0)
        with pytest.raises(ValueError, match="header"):
            await get(pool, "/metrics", {"x": "a\r\nhost: b"}, 999, 5.0)
        fake.health = b"HTTP/1.1 200"
        with pytest.raises(HttpFailure, match="no answer within"):
            await get(pool, "/", {}, 10, 0.05)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://h:8000/v1/", b"h:8000"),
        ("https://h", b"h"),
        ("http://[::1]:80/v1", b"[::1]"),
        ("https://bücher.example/v1", b"xn--bcher-kva.example"),
    ],
)
def test_an_origin(url: str, host: bytes) -> None:
    assert origin_of(url).name == host
    assert not origin_of(url).path.endswith("/")


@pytest.mark.parametrize("url", ["ftp://h", "http://", "http://u:p@h", "http://h/?a", "http://h/#a", "http://h/a b"])
def test_no_origin(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        origin_of(url)


@given(st.text())
def test_no_value_of_a_header_ends_its_line(value: str) -> None:
    if is_header_value(value):
        lines = head("GET", "/", origin_of("http://h"), {"x": value}).split(b"\r\n")
        assert (len(lines), b"\n" in lines[2]) == (4, False)
