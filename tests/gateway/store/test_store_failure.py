"""What is said of stores that cannot be used, by real servers."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.store.store_client import Store
from gateway.store.store_failure import StoreFailure
from protos.errors import StoreUnavailable
from tests.certificates import Authority
from tests.ports import free_port
from tests.valkeys import Valkey, valkeys


async def failure(url: str) -> StoreFailure:
    """Why a store cannot be used; every call says the same."""
    store = Store(url, timeout=5.0)
    try:
        with pytest.raises(StoreUnavailable) as caught:
            await store.ping()
        with pytest.raises(StoreUnavailable) as again:
            await store.hgetall("h")
    finally:
        await store.aclose()
    found = caught.value.__cause__
    assert isinstance(found, StoreFailure)
    assert str(again.value.__cause__) == str(found)
    assert "hunter2" not in f"{found} {caught.value}"
    return found


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Valkey]:
    with valkeys(tmp_path, 1, password="right") as (server,):
        yield server


async def test_login_and_database(guarded: Valkey) -> None:
    at = f"127.0.0.1:{guarded.port}"
    with guarded.client() as client:
        client.execute_command("ACL", "SETUSER", "reader", "on", ">r", "~*", "+@read", "+select", "+hello")
    for url, said in (
        (f"redis://:hunter2@{at}", "it refuses the password of the address"),
        (f"redis://nobody:hunter2@{at}", "or has no user of that name"),
        (f"redis://{at}", "it wants a password, and the address has none"),
        (f"redis://:right@{at}/99", "it has no database 99"),
    ):
        found = await failure(url)
        assert said in str(found)
        assert found.refused
    store = Store(f"redis://reader:r@{at}")
    with pytest.raises(StoreUnavailable) as caught:
        await store.ping()
    await store.aclose()
    assert "its user may not do what Penstock needs" in str(caught.value.__cause__)


async def test_a_password_that_nobody_set(tmp_path: Path) -> None:
    with valkeys(tmp_path, 1) as (server,):
        assert "it has no password, but the address has one" in str(
            await failure(f"redis://:hunter2@127.0.0.1:{server.port}?protocol=2")
        )


async def test_nobody_is_there(tmp_path: Path) -> None:
    port = free_port()
    found = await failure(f"redis://:hunter2@127.0.0.1:{port}")
    assert (str(found), found.refused) == (f"nobody listens at 127.0.0.1:{port}", False)
    found = await failure("redis://u:hunter2@no-such-host.invalid")
    assert str(found).startswith("the name of no-such-host.invalid:6379 is not known: ")
    assert str(await failure(f"unix://{tmp_path}/none.sock")) == f"there is no {tmp_path}/none.sock"


async def test_tls_where_there_is_none(tmp_path: Path) -> None:
    with valkeys(tmp_path, 1) as (server,):
        store = Store(f"rediss://:hunter2@127.0.0.1:{server.port}", timeout=0.5)
        with pytest.raises(StoreUnavailable) as caught:
            await store.ping()
        await store.aclose()
    assert str(caught.value.__cause__) == "no answer within 0.5 s; is it redis://?"
    async with _answering(b"-ERR Protocol error") as port:
        found = await failure(f"rediss://:hunter2@127.0.0.1:{port}")
    assert str(found).startswith("no TLS with it: ")
    assert str(found).endswith("; is it redis://?")


async def test_what_is_no_store() -> None:
    async with _answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert "does not speak Redis' protocol" in str(await failure(f"redis://127.0.0.1:{port}"))
    async with _answering(b"") as port:
        assert "closed the connection; if it always does, is it rediss://?" in str(
            await failure(f"redis://127.0.0.1:{port}")
        )


async def test_one_kind_of_address_for_another(tmp_path: Path) -> None:
    with valkeys(tmp_path, 1) as (server,):
        assert "it is no cluster" in str(await failure(f"redis+cluster://127.0.0.1:{server.port}"))
        assert "it is no Sentinel" in str(await failure(f"redis+sentinel://127.0.0.1:{server.port}/main"))


async def test_a_certificate_of_nobody_known(tmp_path: Path) -> None:
    signed = Authority(tmp_path).signed()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)
    async with _answering(b"+OK\r\n", context) as port:
        assert "its certificate is not good: " in str(await failure(f"rediss://localhost:{port}"))


@contextlib.asynccontextmanager
async def _answering(data: bytes, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that answers to everything with the same, and closes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
