"""TLS between gateway and replicas: real gRPC on both ends, certificates of an authority made here."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509

from protos.pem import PemError
from protos.server_tls import ServerTls
from replicas.replica_server import ReplicaServer
from replicas.serve_pool import serve_pool
from routing.fleet.fleet import Fleet
from routing.transports.replica_tls import TlsFiles
from tests.certificates import Authority, Signed, client_files, server_files
from tests.harness import engine_of, spec_of
from tests.loops import until


@contextlib.asynccontextmanager
async def serving_tls(files: ServerTls | None) -> AsyncIterator[str]:
    """A replica server with TLS, and its `HOST:PORT`."""
    server = ReplicaServer(engine_of(), tls=files)
    try:
        yield await server.start("127.0.0.1:0")
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def fleet_of(address: str, tls: TlsFiles | None = None, engine: str = "simulated") -> AsyncIterator[Fleet]:
    """A fleet of one replica, started."""
    fleet = Fleet([spec_of(address, tls=tls, engine=engine)], "worker")
    fleet.start()
    try:
        yield fleet
    finally:
        await fleet.aclose()


async def connected(address: str, tls: TlsFiles | None = None) -> None:
    async with fleet_of(address, tls) as fleet:
        await fleet.wait_ready(1)
        assert fleet.problems() == {}


async def problem_of(address: str, tls: TlsFiles | None = None) -> str:
    """Why a replica does not get ready."""
    async with fleet_of(address, tls) as fleet:
        await until(lambda: fleet.problems().get("pool/0", "") not in ("", "not connected yet"))
        return fleet.problems()["pool/0"]


async def serial_at(address: str) -> int:
    """The serial number of the certificate that a new connection is shown."""
    host, port = address.rsplit(":", 1)
    text = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
    return x509.load_pem_x509_certificate(text.encode()).serial_number


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "stranger")


async def test_a_session_over_tls(authority: Authority) -> None:
    async with serving_tls(server_files(authority.signed())) as address:
        await connected(f"grpcs://{address}", client_files(authority))


async def test_a_certificate_of_another_name_is_refused(authority: Authority) -> None:
    async with serving_tls(server_files(authority.signed(hosts=("replica.example",)))) as address:
        problem = await problem_of(f"grpcs://{address}", client_files(authority))
        assert "its certificate is not for 127.0.0.1" in problem
        problem = await problem_of(f"grpcs://{address}", client_files(authority, server_name="other.example"))
        assert "its certificate is not for other.example" in problem
        await connected(f"grpcs://{address}", client_files(authority, server_name="replica.example"))


async def test_a_certificate_of_an_unknown_authority_is_refused(authority: Authority, stranger: Authority) -> None:
    async with serving_tls(server_files(authority.signed())) as address:
        problem = await problem_of(f"grpcs://{address}", client_files(stranger))
        assert f"its certificate is not accepted by {stranger.ca}: " in problem
        assert "the authorities of this system" in await problem_of(f"grpcs://{address}")


async def test_mutual_tls(authority: Authority, stranger: Authority) -> None:
    async with serving_tls(server_files(authority.signed(), authority.ca)) as address:
        address = f"grpcs://{address}"
        await connected(address, client_files(authority, authority.signed("gateway")))
        assert "perhaps it wants to see a certificate" in await problem_of(address, client_files(authority))
        other = stranger.signed("other")
        problem = await problem_of(address, client_files(authority, other))
        assert f"perhaps it does not accept that of {other.certificate}" in problem


async def test_one_end_without_tls_is_told_apart(authority: Authority) -> None:
    async with serving_tls(server_files(authority.signed())) as address:
        assert "perhaps it speaks TLS, and its address is grpcs://" in await problem_of(f"grpc://{address}")
    async with serving_tls(None) as address:
        assert "it does not speak TLS there" in await problem_of(f"grpcs://{address}", client_files(authority))


async def test_a_server_shows_a_renewed_certificate_to_new_connections(authority: Authority) -> None:
    files, renewed = authority.signed(), authority.signed("renewed")
    async with serving_tls(server_files(files)) as address:
        tls = client_files(authority)
        async with fleet_of(f"grpcs://{address}", tls) as fleet:
            await fleet.wait_ready(1)
            assert await serial_at(address) == files.serial != renewed.serial
            files.replace_with(renewed)
            assert await serial_at(address) == renewed.serial
            await connected(f"grpcs://{address}", tls)
            # Who was connected before stays so.
            assert fleet.problems() == {}


async def test_a_server_keeps_what_it_has_while_the_new_files_are_broken(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    files = authority.signed()
    serial = files.serial
    async with serving_tls(server_files(files)) as address:
        files.certificate.write_text("half a certif")
        for _ in range(3):
            assert await serial_at(address) == serial
        renewed = authority.signed("renewed")
        files.replace_with(renewed)
        assert await serial_at(address) == renewed.serial
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1
    assert f"{files.certificate} has no certificate in PEM form" in told[0].getMessage()


async def test_a_server_lets_in_whom_renewed_authorities_vouch_for(authority: Authority, stranger: Authority) -> None:
    guest = client_files(authority, stranger.signed("guest"))
    async with serving_tls(server_files(authority.signed(), authority.ca)) as address:
        assert "perhaps it does not accept" in await problem_of(f"grpcs://{address}", guest)
        both = authority.ca.with_name("both.pem")
        both.write_bytes(authority.ca.read_bytes() + stranger.ca.read_bytes())
        both.replace(authority.ca)
        await connected(f"grpcs://{address}", guest)


async def test_a_gateway_takes_renewed_files_without_a_restart(authority: Authority, stranger: Authority) -> None:
    mine: Signed = stranger.signed("gateway")
    ca = authority.ca.with_name("trusted.pem")
    ca.write_bytes(stranger.ca.read_bytes())
    files = TlsFiles(ca, mine.certificate, mine.key)
    server = serving_tls(server_files(authority.signed(), authority.ca))
    async with server as address, fleet_of(f"grpcs://{address}", files) as fleet:
        await until(lambda: "is not accepted by" in fleet.problems().get("pool/0", ""))
        ca.write_bytes(authority.ca.read_bytes())
        await until(lambda: "does not accept that of" in fleet.problems().get("pool/0", ""))
        mine.replace_with(authority.signed("renewed"))
        await fleet.wait_ready(1)


async def test_a_gateway_names_the_file_that_it_cannot_use(authority: Authority, tmp_path: Path) -> None:
    async with serving_tls(server_files(authority.signed())) as address:
        problem = await problem_of(f"grpcs://{address}", TlsFiles(tmp_path / "none.pem"))
        assert f"{tmp_path}/none.pem cannot be read: No such file" in problem


async def test_a_server_does_not_start_without_its_files(authority: Authority) -> None:
    files, other = authority.signed(), authority.signed("other")
    with pytest.raises(PemError, match=rf"{other.key} is not the key of the certificate in {files.certificate}"):
        await ReplicaServer(engine_of(), tls=ServerTls(files.certificate, other.key)).start("127.0.0.1:0")
    files.key.unlink()
    with pytest.raises(PemError, match=r"server\.key cannot be read"):
        await ReplicaServer(engine_of(), tls=server_files(files)).start("127.0.0.1:0")


async def test_files_are_looked_at_before_an_engine_is_loaded(authority: Authority) -> None:
    class Slow:
        info = engine_of().info
        loaded = False

        async def start(self) -> None:
            self.loaded = True

        async def stop(self) -> None:
            """Nothing was taken."""

    files, other, engine = authority.signed(), authority.signed("other"), Slow()
    tls, stop = ServerTls(files.certificate, other.key), asyncio.Event()
    with pytest.raises(PemError, match="is not the key of"):
        await serve_pool(
            [("127.0.0.1:0", engine)],  # type: ignore[list-item]
            drain_seconds=0.0,
            stop=stop,
            ready=lambda _: None,
            tls=tls,
        )
    assert not engine.loaded


async def test_a_unix_socket_stays_plain(authority: Authority, state_dir: Path) -> None:
    server = ReplicaServer(engine_of(), tls=server_files(authority.signed()))
    address = await server.start(f"unix:{state_dir}/r.sock")
    await connected(address)
    await server.close()


async def test_clients_of_the_stock_service_come_over_tls_too(authority: Authority) -> None:
    async with serving_tls(server_files(authority.signed(), authority.ca)) as address:
        address = f"grpcs://{address}"
        mine = client_files(authority, authority.signed("gateway"))
        async with fleet_of(address, mine, "trtllm_grpc") as fleet:
            await fleet.wait_ready(1)
        async with fleet_of(address, client_files(authority), "trtllm_grpc") as fleet:
            await until(lambda: "perhaps it wants to see a certificate" in fleet.problems().get("pool/0", ""))
