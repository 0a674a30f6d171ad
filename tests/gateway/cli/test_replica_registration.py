import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from gateway.cli.main import main as command
from gateway.cli.replica_registration import (
    RegistrationError,
    StoreRegistration,
    add_registration_options,
    check_registration,
)
from gateway.fleets.discovery.registrations import Registration, registered
from gateway.store.store_client import Store
from protos.launch_step import LaunchStep
from protos.types import Role, Shape
from tests.fakes import info_of
from tests.loops import SOON_SECONDS
from tests.stores import running
from tests.valkeys import valkeys


def options(*given: str, tls: bool = False) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", action="append")
    add_registration_options(parser)
    found = parser.parse_args(given)
    found.model, found.engine, found.model_version, found.role = "m", "simulated", "", "both"
    found.tp, found.ep, found.pp = 2, 1, 1
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
        (("--listen", "h:1", "--launch-id", "a"), "go with --register"),
        ((*HERE, "--register", "redis://h", "--launch-id", "A"), "--launch-id: expected 1 to 63 of a-z"),
        ((*HERE, "--register", "redis://h", "--launch-id", "a", "--listen", "h:2"), "names one replica"),
        ((*HERE, "--register", "redis://h", "--launch-id", "a", "--orphan-seconds", "nan"), "expected more than 0"),
        (("--listen", "0.0.0.0:1", "--pool", "p", "--register", "redis://h"), "--advertise must say"),
        (("--listen", "[::]:1", "--pool", "p", "--register", "redis://h"), "--advertise must say"),
        ((*HERE, "--register", "env:NO_SUCH_THING"), "the environment has no NO_SUCH_THING"),
        (("--listen", "h:1", "--register-password", "env:P"), "--register-password goes with --register"),
        ((*HERE, "--register", "redis://h", "--register-password", "env:NONE"), "the environment has no NONE"),
        ((*HERE, "--register", "redis://h", "--register-password", "secret"), "expected env:NAME or file:PATH"),
        (
            (*HERE, "--register", "redis://u:secret@h", "--register-password", "env:PATH"),
            "the address has a password too",
        ),
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
    assert capsys.readouterr().err == "penstock replica: --pool, --advertise and --launch-id go with --register\n"


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
    first, second = info_of(shape=Shape(tp=2)), info_of(role=Role.DECODE)
    scheme = "grpcs" if kind == "env" else "grpc"
    async with running(store_url) as store:
        with StoreRegistration().announced(arguments) as announcement:
            await until_registered(store, lambda found: len(found) == 2)
            announcement.describe([first, second], ["127.0.0.1:4711", "unix:/run/r.sock"], {})
            announcement.tell(LaunchStep.READY)
            found = await until_registered(store, lambda found: all(one.step is LaunchStep.READY for one in found))
            assert [(one.address, one.role, one.pool) for one in found if one.address != f"{scheme}://127.0.0.1:1"] == [
                (f"{scheme}://127.0.0.1:4711", Role.BOTH, "p"),
                ("unix:/run/r.sock", Role.DECODE, "p"),
            ]
        assert await registered(store) == []


async def test_each_step_is_told_as_it_comes(store_url: str) -> None:
    arguments = options("--listen", "127.0.0.1:1", "--pool", "p", "--register", store_url, "--launch-id", "a-1")
    check_registration(arguments)
    async with running(store_url) as store:
        with StoreRegistration().announced(arguments) as announcement:
            for step in (LaunchStep.PROCESS, LaunchStep.LOAD, LaunchStep.WARM_UP):
                if step is not LaunchStep.PROCESS:
                    announcement.tell(step)
                found = await until_step(store, step)
                assert (found.launch_id, found.address, found.tokenizer_hash) == ("a-1", "grpc://127.0.0.1:1", "")
                assert (found.model, found.engine, found.shape) == ("m", "simulated", Shape(tp=2))
            announcement.describe(
                [structs.replace(info_of(), tokenizer_hash="abc")], ["127.0.0.1:1"], {LaunchStep.LOAD: 1.23456}
            )
            announcement.tell(LaunchStep.READY)
            found = await until_step(store, LaunchStep.READY)
            assert (found.launch_id, found.tokenizer_hash) == ("a-1", "abc")
            assert found.start_seconds == {"load": 1.235}
            announcement.tell(LaunchStep.STOPPING)
            announcement.tell(LaunchStep.READY)
            await until_step(store, LaunchStep.STOPPING)


async def test_a_port_that_the_system_chooses_is_told_once_it_is_known(store_url: str) -> None:
    arguments = options("--listen", "127.0.0.1:0", "--pool", "p", "--register", store_url)
    async with running(store_url) as store:
        with StoreRegistration().announced(arguments) as announcement:
            announcement.tell(LaunchStep.LOAD)
            announcement.describe([info_of()], ["127.0.0.1:4711"], {})
            announcement.tell(LaunchStep.READY)
            found = await until_registered(store, lambda found: found)
            assert [one.address for one in found] == ["grpc://127.0.0.1:4711"]


async def until_registered(store: Store, wanted: Callable[[list[Registration]], object]) -> list[Registration]:
    """Wait for registrations, as the process's other thread makes them."""
    async with asyncio.timeout(SOON_SECONDS):
        while not wanted(found := await registered(store)):
            pass
    return found


async def until_step(store: Store, step: LaunchStep) -> Registration:
    """Wait until the only replica tells that step."""
    (found,) = await until_registered(store, lambda found: [one.step for one in found] == [step])
    return found


@pytest.mark.parametrize("whole", [False, True])
async def test_a_password_that_is_replaced_counts_for_new_connections(tmp_path: Path, whole: bool) -> None:
    with valkeys(tmp_path, 1, password="right") as (server,):
        at, file = f"127.0.0.1:{server.port}", tmp_path / "secret"

        def says(password: str) -> None:
            file.write_text(f"redis://:{password}@{at}" if whole else password)

        says("right")
        named = ["--register", f"file:{file}"] if whole else ["--register", f"redis://{at}"]
        arguments = options(*HERE, *named, *([] if whole else ["--register-password", f"file:{file}"]))
        check_registration(arguments)
        with StoreRegistration().announced(arguments) as announcement:
            async with running(f"redis://:right@{at}") as store:
                await until_registered(store, lambda found: len(found) == 1)
            says("fresh")
            with server.client() as client:
                client.config_set("requirepass", "fresh")
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            announcement.tell(LaunchStep.LOAD)
            async with running(f"redis://:fresh@{at}") as store:
                await until_registered(store, lambda found: [one.step for one in found] == [LaunchStep.LOAD])
