import argparse
import asyncio
import logging
from pathlib import Path

import pytest

from gateway.cli import replica_registration
from gateway.cli.main import main as command
from gateway.cli.replica_registration import Registrar, RegistrationError, add_registration_options, check_registration
from gateway.fleets.discovery.registrations import Registration, registered
from gateway.store.embedded import EmbeddedStore
from gateway.store.store_client import Store
from protos.types import Role, Shape
from tests.fakes import info_of
from tests.loops import until


def options(*given: str, tls: bool = False) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", action="append")
    add_registration_options(parser)
    found = parser.parse_args(given)
    found.tls_certificate = Path("c.pem") if tls else None
    return found


HERE = ("--listen", "127.0.0.1:1", "--pool", "p")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--listen", "h:1", "--pool", "p"), "go with --register"),
        (("--listen", "h:1", "--advertise", "grpc://h:1"), "go with --register"),
        (("--listen", "h:1", "--register", "redis://h"), "needs --pool"),
        ((*HERE, "--listen", "h:2", "--register", "redis://h", "--advertise", "grpc://h:1"), "as often as --listen"),
        ((*HERE, "--register", "redis://h", "--advertise", "h:1"), "expected grpc://HOST:PORT"),
        (("--listen", "0.0.0.0:1", "--pool", "p", "--register", "redis://h"), "--advertise must say"),
        (("--listen", "[::]:1", "--pool", "p", "--register", "redis://h"), "--advertise must say"),
        ((*HERE, "--register", "env:NO_SUCH_THING"), "the environment has no NO_SUCH_THING"),
        ((*HERE, "--register", "file:/no/such/file"), "cannot read /no/such/file"),
        ((*HERE, "--register", "secret"), "expected a store's address"),
        ((*HERE, "--register", "http://u:secret@h"), "expected an address that starts with redis://"),
        ((*HERE, "--register", "redis://u:secret@h:secret"), "a port is a number"),
        ((*HERE, "--register", "redis+cluster://u:secret@h:0"), "expected redis+cluster://HOST:PORT"),
    ],
)
def test_options_that_do_not_go_together(given: tuple[str, ...], said: str) -> None:
    with pytest.raises(RegistrationError) as caught:
        check_registration(options(*given))
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_command_says_so_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["replica", "--engine", "simulated", "--model", "m", "--listen", "127.0.0.1:0", "--pool", "p"]
    assert command(given) == 2
    assert capsys.readouterr().err == "penstock replica: --pool and --advertise go with --register\n"


@pytest.mark.parametrize("given", ["127.0.0.1:99999", "127.0.0.1", ":1", "h:port"])
def test_an_address_that_nothing_can_listen_on(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option, value in (("--listen", given), ("--port", given.partition(":")[2] or "x")):
        if value != "1":
            with pytest.raises(SystemExit):
                command(["replica", "--engine", "simulated", "--model", "m", option, value])
            assert "expected HOST:PORT or unix:/PATH, with a port from 0 (any) to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["plain", "env", "file"])
async def test_a_replica_is_registered_until_it_stops(
    kind: str, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_URL", store_url)
    (tmp_path / "url").write_text(f"{store_url}\n")
    named = {"plain": store_url, "env": "env:STORE_URL", "file": f"file:{tmp_path / 'url'}"}[kind]

    arguments = options(*HERE, "--listen", "unix:/run/r.sock", "--register", named, tls=kind == "env")
    check_registration(arguments)
    stop, store = asyncio.Event(), Store(store_url, timeout=10.0)
    first, second = info_of(shape=Shape(tp=2)), info_of(role=Role.DECODE)
    registrar = Registrar(arguments, [first, second], ["127.0.0.1:4711", "unix:/run/r.sock"])
    task = asyncio.create_task(registrar.run(stop))
    found: list[Registration] = []
    while len(found) < 2:
        found = await registered(store)
    scheme = "grpcs" if kind == "env" else "grpc"
    assert [(one.address, one.role, one.pool) for one in found] == [
        (f"{scheme}://127.0.0.1:4711", Role.BOTH, "p"),
        ("unix:/run/r.sock", Role.DECODE, "p"),
    ]
    stop.set()
    await task
    assert await registered(store) == []
    await store.aclose()


async def test_an_outage_of_the_store_is_waited_for(
    own_store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replica_registration, "HEARTBEAT_SECONDS", 0.02)

    with caplog.at_level(logging.INFO):
        arguments = options(*HERE, "--register", own_store.url, "--advertise", "grpc://10.0.0.1:9")
        stop = asyncio.Event()
        task = asyncio.create_task(Registrar(arguments, [info_of()], ["127.0.0.1:1"]).run(stop))
        await until(lambda: "registered as grpc://10.0.0.1:9" in caplog.text)
        own_store.stop()
        await until(lambda: "cannot register" in caplog.text)
        caplog.clear()
        own_store.start()
        await until(lambda: "registered as" in caplog.text)
        store = Store(own_store.url, timeout=10.0)
        assert [one.address for one in await registered(store)] == ["grpc://10.0.0.1:9"]
        await store.aclose()
        own_store.stop()
        stop.set()
        await task
        assert "cannot deregister" in caplog.text


async def test_two_of_one_address_are_noticed(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replica_registration, "HEARTBEAT_SECONDS", 0.02)

    stop = asyncio.Event()
    arguments = options(*HERE, "--register", store_url)
    runs = [Registrar(arguments, [info_of()], ["127.0.0.1:1"]).run(stop) for _ in range(2)]
    tasks = [asyncio.create_task(run) for run in runs]
    await until(lambda: "another replica that began later" in caplog.text)
    stop.set()
    await asyncio.gather(*tasks)
    assert sum(record.levelname == "ERROR" for record in caplog.records) == 1
