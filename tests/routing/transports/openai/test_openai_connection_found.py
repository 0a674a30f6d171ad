"""Transports to upstreams whose certificates' files are broken, and to those that were found by name."""

import ssl
from pathlib import Path

import pytest

from protos.types import Role, Shape
from routing.fleet.fleet import Fleet
from routing.transports.openai.settings import API_FEATURES, KeyedUpstream, OpenAISettings
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.replica_tls import TlsFiles
from tests.certificates import Authority
from tests.loops import until
from tests.upstreams import upstream


def spec_of(url: str, *, tls: TlsFiles | None = None, host: str = "") -> ReplicaSpec:
    settings = KeyedUpstream(OpenAISettings(model="theirs", metrics_of="none", health_seconds=0.0))
    return ReplicaSpec(
        "p/0", url, "p", "ours", "openai", Shape(), Role.BOTH, 1, 1,
        features=API_FEATURES, tls=tls, settings=settings, host=host,
    )  # fmt: skip


def serving_with(authority: Authority) -> ssl.SSLContext:
    signed = authority.signed(hosts=("api.example",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)
    return context


@pytest.mark.parametrize("broken", [b"", b"-----BEGIN CERTIFICATE-----\nhalf", None])
async def test_a_worker_starts_with_a_broken_file_and_connects_once_it_is_whole(
    tmp_path: Path, broken: bytes | None
) -> None:
    authority = Authority(tmp_path)
    whole, ca = authority.ca.read_bytes(), tmp_path / "given.pem"
    if broken is not None:
        ca.write_bytes(broken)

    async with upstream(serving_with(authority)) as fake:
        fleet = Fleet([spec_of(fake.url, tls=TlsFiles(ca, server_name="api.example"))], "w")
        fleet.start()
        await until(lambda: str(ca) in fleet.problems()["p/0"])
        assert not fleet.ready
        ca.write_bytes(whole)
        await fleet.wait_ready(1)
        await fleet.aclose()


async def test_authorities_whose_comments_are_in_any_language(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.ca.write_bytes("# NetLock Arany Főtanúsítvány\n".encode() + authority.ca.read_bytes())

    async with upstream(serving_with(authority)) as fake:
        fleet = Fleet([spec_of(fake.url, tls=TlsFiles(authority.ca, server_name="api.example"))], "w")
        fleet.start()
        await fleet.wait_ready(1)
        await fleet.aclose()


async def test_one_that_was_found_is_asked_by_its_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def host_seen(context: ssl.SSLContext | None, tls: TlsFiles | None) -> str:
        async with upstream(context) as fake:
            fleet = Fleet([spec_of(fake.url, tls=tls, host="found.example")], "w")
            fleet.start()
            await fleet.wait_ready(1)
            await fleet.aclose()
            return fake.looks[0].headers["host"].partition(":")[0]

    assert await host_seen(None, None) == "found.example"
    # Whatever its certificate is for.
    tls = TlsFiles(authority.ca, server_name="api.example")
    assert await host_seen(serving_with(authority), tls) == "found.example"
