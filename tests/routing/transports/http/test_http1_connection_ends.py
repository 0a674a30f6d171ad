"""Connections whose upstream ends them, or its answer, before anybody thought."""

import asyncio

from routing.transports.http.connection_pool import ConnectionPool
from routing.transports.http.http1_connection import HttpConnection
from routing.transports.http.http1_request import Fault
from routing.transports.http.origin import origin_of
from tests.routing.transports.http.test_http1_connection import Ear
from tests.upstreams import plain, upstream


async def test_a_connection_that_is_closed_before_its_first_request_leaves_nothing_behind() -> None:
    class Hasty(ConnectionPool):
        async def _connection(self) -> HttpConnection:
            connection = await super()._connection()
            connection.eof_received()  # uvloop tells of it before whoever waits for the connection goes on
            return connection

    async with upstream() as fake:
        pool = Hasty(origin_of(fake.url))
        for _ in range(3):
            pool.send(ear := Ear())
            await ear.heard()
            assert ear.fault is Fault.UNREACHABLE
            assert ear.failure is not None and "closed at once" in ear.failure.problem
        assert pool.connections == 0
        await pool.aclose()


async def test_a_connection_with_half_a_request_on_its_way_is_not_used_again() -> None:
    over = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(plain(b"no", "413 Content Too Large"))
        await over.wait()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=1 << 16)
    port = server.sockets[0].getsockname()[1]
    pool = ConnectionPool(origin_of(f"http://127.0.0.1:{port}"))
    size = 64 << 20
    pool.send(ear := Ear(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % size + bytes(size)))
    await ear.heard()
    assert (ear.failure, ear.status, ear.body) == (None, 413, b"no")
    assert pool.connections == 0
    over.set()
    await pool.aclose()
    server.close()
    await server.wait_closed()
