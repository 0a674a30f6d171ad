"""Starts of simulated replicas that take time, in the configuration."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.models.engines import Preparation
from gateway.config.settings import Config
from gateway.fleets.local_replicas import launch_command
from protos.types import Shape
from replicas.fast_start.preparations import PREPARATIONS
from replicas.launchers.launcher import ReplicaOrder

ORDER = ReplicaOrder(id="m-p-1", model="m", pool="p", shape=Shape())


def loaded(folder: Path, more: dict[str, Any] | None = None, **simulated: Any) -> Config:
    path = folder / "penstock.yaml"
    pool: dict[str, Any] = {"name": "p", "engine": "simulated", "replicas": "registered", "launcher": "local"}
    pool |= {"scaling": {"min": 0, "max": 1}, "simulated": simulated, **(more or {})}
    model = {"name": "m", "tokenizer": "mistral-tekken", "context": 4096, "pools": [pool]}
    path.write_bytes(msgspec.json.encode({"models": [model]}))
    return load_config(path)


@pytest.mark.parametrize(
    ("start", "option"), [([], "none"), (["all"], "all"), (["pod", "page_cache"], "pod,page_cache")]
)
def test_replicas_are_told_what_is_prepared(tmp_path: Path, start: list[str], option: str) -> None:
    command = launch_command(loaded(tmp_path, start=start), 0, 0, ORDER, "unix:/r")
    assert command[command.index("--simulate-start") + 1] == option
    assert "--simulate-start" not in launch_command(loaded(tmp_path), 0, 0, ORDER, "unix:/r")


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (["all", "pod"], "`all` stands alone"),
        (["fork", "pod", "page_cache"], "fork and page_cache exclude each other"),
        (["pods"], "pods"),
    ],
)
def test_contradictions_are_named(tmp_path: Path, start: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=r"models\[0\].pools\[0\].simulated.start") as error:
        loaded(tmp_path, start=start)
    assert said in str(error.value)


def test_replicas_that_the_gateway_waits_for_take_no_time(tmp_path: Path) -> None:
    fixed = {"replicas": 1, "launcher": None, "scaling": None}
    with pytest.raises(ConfigError, match=r"simulated\.start: only with a launcher"):
        loaded(tmp_path, fixed, start=["all"])


def test_the_configuration_and_the_replica_know_the_same_names() -> None:
    assert set(get_args(Preparation)) == {"all", *PREPARATIONS}


def test_processes_in_wait_may_have_gpus(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    pool: dict[str, Any] = {"name": "p", "engine": "simulated", "replicas": "registered", "launcher": "local"}
    pool |= {"scaling": {"min": 0, "max": 1}}
    model = {"name": "m", "tokenizer": "mistral-tekken", "context": 4096, "pools": [pool]}
    launchers = {"local": {"standby": 1, "gpus": [0]}}
    path.write_bytes(msgspec.json.encode({"models": [model], "launchers": launchers}))
    assert load_config(path).launchers.local.standby == 1
