import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.secret_variables import LateSecrets
from gateway.config.settings import Config
from gateway.fleets.local_replicas import launch_address, launch_command, launch_environment, replica_command
from protos.types import Role, Shape
from replicas.launchers.launcher import ReplicaOrder

LAUNCHED = {"name": "p", "replicas": "registered", "launcher": "local", "scaling": {"min": 0, "max": 4}}
ORDER = ReplicaOrder(id="m-p-1", model="m", pool="p", shape=Shape(tp=2), role=Role.DECODE)


def config(folder: Path, *pools: dict[str, Any], **settings: Any) -> Config:
    models = [{"name": "m", "tokenizer": "mistral-tekken", "context": 4096, "pools": pools}]
    return msgspec.convert({"state": str(folder), "models": models, **settings}, Config)


def option(command: list[str], name: str) -> str:
    assert command.count(name) == 1
    return command[command.index(name) + 1]


def test_a_launched_replica_registers_under_its_id(state_dir: Path) -> None:
    made = config(
        state_dir,
        {**LAUNCHED, "engine": "simulated", "version": "v1", "simulated": {"speed": 3.0}},
        store={"url": "redis://:secret@10.0.0.1:6379"},
    )
    command = launch_command(made, 0, 0, ORDER, "unix:/run/r.sock")
    assert {
        name: option(command, name)
        for name in ("--register", "--pool", "--launch-id", "--listen", "--tp", "--role", "--model-version", "--speed")
    } == {
        "--register": "env:PENSTOCK_STORE",
        "--pool": "p",
        "--launch-id": "m-p-1",
        "--listen": "unix:/run/r.sock",
        "--tp": "2",
        "--role": "decode",
        "--model-version": "v1",
        "--speed": "3.0",
    }
    assert "secret" not in " ".join(command)
    later = launch_command(made, 0, 0, msgspec.structs.replace(ORDER, version="v2"), "unix:/run/r.sock")
    assert option(later, "--model-version") == "v2"


def test_another_engine_has_the_arguments_that_it_needs(state_dir: Path) -> None:
    given = ["--checkpoint", "/models/m", "--kv-fraction=0.8"]
    made = config(state_dir, {**LAUNCHED, "engine": "tensorrt_llm", "replica_arguments": given})
    command = launch_command(made, 0, 0, ORDER, "unix:/run/r.sock")
    assert (option(command, "--engine"), option(command, "--checkpoint")) == ("tensorrt_llm", "/models/m")
    assert "--kv-fraction=0.8" in command
    assert "--speed" not in command


def test_a_pool_of_a_number_is_one_process(state_dir: Path) -> None:
    made = config(state_dir, {"name": "p", "replicas": 2, "engine": "simulated", "shape": {"tp": 2}})
    command = replica_command(made, 0, 0)
    assert command.count("--listen") == 2
    assert "--register" not in command


@pytest.mark.parametrize("embedded", [True, False])
def test_the_store_is_in_the_environment_and_no_other_secret(
    embedded: bool, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_URL", "redis://:secret@10.0.0.1:6379")
    monkeypatch.setenv("OTHER", "stays")
    store: dict[str, Any] = {} if embedded else {"store": {"url": {"env": "STORE_URL"}}}
    made = config(state_dir, {**LAUNCHED, "engine": "simulated"}, **store)
    environment = launch_environment(made, LateSecrets())
    assert environment["OTHER"] == "stays"
    if embedded:
        assert environment["PENSTOCK_STORE"] == f"unix://{state_dir}/store.sock"
    else:
        assert environment["PENSTOCK_STORE"] == "redis://:secret@10.0.0.1:6379"
        assert "STORE_URL" not in environment


@pytest.mark.parametrize(
    ("store", "registers", "has"),
    [
        ({"url": {"file": "/run/url"}}, ["file:/run/url"], {}),
        (
            {"url": "redis://h", "password": {"file": "/run/password"}},
            ["env:PENSTOCK_STORE", "file:/run/password"],
            {"PENSTOCK_STORE": "redis://h"},
        ),
        (
            {"url": {"file": "/run/url"}, "password": {"env": "STORE_PASSWORD"}},
            ["file:/run/url", "env:PENSTOCK_STORE_PASSWORD"],
            {"PENSTOCK_STORE_PASSWORD": "secret"},
        ),
        (
            {"url": "redis://h", "password": {"env": "STORE_PASSWORD"}},
            ["env:PENSTOCK_STORE"],
            {"PENSTOCK_STORE": "redis://:secret@h"},
        ),
    ],
)
def test_what_a_file_has_replicas_read_by_themselves(
    store: dict[str, Any], registers: list[str], has: dict[str, str], state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_PASSWORD", "secret")
    made = config(state_dir, {**LAUNCHED, "engine": "simulated"}, store=store)
    environment = launch_environment(made, LateSecrets())
    assert {name: value for name, value in environment.items() if name.startswith("PENSTOCK_STORE")} == has
    assert ("STORE_PASSWORD" in environment) is not ({"env": "STORE_PASSWORD"} in store.values())
    command = launch_command(made, 0, 0, ORDER, "unix:/run/r.sock")
    found = [option(command, name) for name in ("--register", "--register-password") if name in command]
    assert found == registers
    assert "secret" not in " ".join(command)


def test_a_socket_has_a_short_path_in_a_private_folder(state_dir: Path) -> None:
    deep = state_dir / ("d" * 90)
    address = launch_address(config(deep, {**LAUNCHED, "engine": "simulated"}), "a" * 63)
    path = Path(address.removeprefix("unix:"))
    assert len(str(path)) < 104
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.parent.rmdir()
