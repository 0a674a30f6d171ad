import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.cli.main import main
from protos.reshape import MemberState, Span
from protos.types import Shape
from routing.health.replica_status import GroupPlace, State
from tests.gateway.fleets.world import MODELS, FakeFleet, status, world_at
from tests.loops import bounded

STUCK = status(
    "narrow/0",
    state=State.EJECTED,
    reason="its requests fail, the last one with engine_error: CUDA error: device-side assert triggered\x1b[2J",
    share=0.0,
    breaker_seconds=12.4,
)


class Shell:
    """The command line, in this process."""

    def __init__(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._config = str(config)
        self._capsys = capsys

    def __call__(self, *arguments: str) -> str:
        assert main(["replicas", *arguments, "--config", self._config]) == 0
        return self._capsys.readouterr().out

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def refusal(self, *arguments: str) -> str:
        assert main(["replicas", *arguments, "--config", self._config]) == 1
        said = self._capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        return said.err


@pytest.fixture
def replicas(store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    path = tmp_path / "c.yaml"
    path.write_text(msgspec.yaml.encode({"models": MODELS, "store": {"url": store_url}}).decode())

    async def report() -> None:
        async with world_at(store_url) as world:
            fleets = {"m": FakeFleet(status("wide/0"), STUCK), "org/m2": FakeFleet(status("only/0", share=0.4))}
            await world.worker("w", fleets).exchange()

    bounded(report)
    return Shell(path, capsys)


@pytest.mark.parametrize("width", [80, 120])
def test_the_list_is_readable_at_any_width(replicas: Shell, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    said = replicas("list")
    lines = said.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == "m: 3 replicas, 1 takes requests"
    header = ["REPLICA", "SHAPE", "ROLE", "STATE", "SHARE", "RUN", "WAIT", "KV", "OPEN", "PREDICT"]
    assert lines[1].split()[:10] == header
    assert lines[2].split()[:10] == ["wide/0", "tp4", "both", "ready", "100%", "3", "1", "25%", "2", "90%"]
    assert lines[3].split()[:5] == ["narrow/0", "tp2-ep2", "both", "ejected", "0%"]
    assert lines[4].split()[3:10] == ["unknown", "0%", "-", "-", "-", "0", "-"]
    text = " ".join(said.split())
    assert "narrow/0: its requests fail, the last one with engine_error: CUDA error" in text
    assert "looked at again in 12 s" in text
    assert "\\x1b[2J" in said and "\x1b" not in said
    assert "org/m2: 3 replicas, 1 takes requests" in lines
    assert ("10.0.0.1:50051" in said) == (width == 120)


def test_what_is_not_connected_or_has_no_partner_is_said_to_be_so(
    store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pools = [
        {"name": role, "engine": "simulated", "role": role, "replicas": [f"grpc://{role}:1"]}
        for role in ("prefill", "decode")
    ]
    models = [{"name": "m", "tokenizer": "t", "context": 9, "pools": pools}]
    path = tmp_path / "pair.yaml"
    path.write_text(msgspec.yaml.encode({"models": models, "store": {"url": store_url}}).decode())
    dead = status("prefill/0", state=State.CONNECTING, reason="it is gone", running=13, share=0.0)

    async def report() -> None:
        async with world_at(store_url) as world:
            await world.worker("w", {"m": FakeFleet(dead, status("decode/0"))}).exchange()

    bounded(report)
    shell = Shell(path, capsys)
    lines = shell("list").splitlines()
    assert lines[0] == "m: 2 replicas, 0 take requests"
    assert lines[2].split()[4:8] == ["0%", "-", "-", "-"]
    assert lines[4:] == [
        "prefill/0: it is gone",
        "decode/0: no prefill replica to pair it with takes requests",
    ]
    assert shell.json("list")[0]["running"] == 0
    assert "no replica of m is left" in shell("drain", "decode")


def test_a_model_without_replicas_is_listed(store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pools = [{"name": "p", "engine": "simulated", "replicas": "registered"}]
    models = [*MODELS, {"name": "zero", "tokenizer": "t", "context": 9, "pools": pools}]
    path = tmp_path / "zero.yaml"
    path.write_text(msgspec.yaml.encode({"models": models, "store": {"url": store_url}}).decode())
    shell = Shell(path, capsys)
    assert shell("list").endswith("\n\nzero: no replicas at the moment\n")
    assert shell("list", "--model", "zero") == "zero: no replicas at the moment\n"


def test_host_groups_are_shown_with_their_gpus(
    store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    pools = [{"name": "p", "engine": "simulated", "replicas": [f"grpc://10.0.0.{i}:1" for i in range(3)]}]
    models = [{"name": "m", "tokenizer": "t", "context": 9, "pools": pools}]
    path = tmp_path / "groups.yaml"
    path.write_text(msgspec.yaml.encode({"models": models, "store": {"url": store_url}}).decode())
    place = GroupPlace("node-1", 4, 0, MemberState.CHANGING, Span(0, 2), 7, "the memory of GPU 1 is full")
    wide = msgspec.structs.replace(status("p/0"), shape=Shape(tp=2), group=place)
    parked = status(
        "p/1",
        state=State.PARKED,
        reason="its GPU belongs to a wider replica of its host group",
        share=0.0,
        group=GroupPlace("node-1", 4, 1, MemberState.PARKED, Span(0, 2)),
    )

    async def report() -> None:
        async with world_at(store_url) as world:
            await world.worker("w", {"m": FakeFleet(wide, parked, status("p/2"))}).exchange()

    bounded(report)
    shell = Shell(path, capsys)
    said = shell("list")
    lines = [line.split() for line in said.splitlines()]
    assert "m: 3 replicas, 2 take requests" in said
    assert lines[1][10:12] == ["GPUS", "ADDRESS"]
    assert lines[2][:5] == ["p/0", "tp2", "both", "ready", "100%"]
    assert lines[2][10:13] == ["node-1", "0-1", "(changing)"]
    assert (lines[3][3], lines[3][10:12]) == ("parked", ["node-1", "0-1"])
    assert lines[4][10] == "-"
    assert "p/0: change 7 of its shape failed: the memory of GPU 1 is full" in said
    assert "p/1: its GPU belongs to a wider replica of its host group" in said
    rows = shell.json("list")
    assert rows[0]["shape"] == {"tp": 2, "ep": 1, "pp": 1}
    assert rows[0]["group"] == {
        "name": "node-1",
        "gpu": 0,
        "gpus": 4,
        "first": 0,
        "last": 1,
        "state": "changing",
        "change": 7,
        "failure": "the memory of GPU 1 is full",
    }
    assert rows[1]["group"]["state"] == "parked"


@pytest.mark.parametrize("width", [80, 100, 160])
def test_columns_leave_where_there_is_no_room_for_all(
    store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    address = "unix:/var/lib/penstock/launched/a-pool-2bc797cc7194710a.sock"
    pools = [{"name": "long-pool", "engine": "simulated", "replicas": [address, "grpc://10.0.0.1:1"]}]
    models = [{"name": "m", "tokenizer": "t", "context": 9, "pools": pools}]
    path = tmp_path / "long.yaml"
    path.write_text(msgspec.yaml.encode({"models": models, "store": {"url": store_url}}).decode())
    late = "2026-11-30-a-version-of-a-very-long-name-rc2"
    idle = status("long-pool/1", version=late, share=0.0, reason="its version serves no requests now")

    async def report() -> None:
        async with world_at(store_url) as world:
            await world.worker("w", {"m": FakeFleet(status("long-pool/0", version="v1"), idle)}).exchange()

    bounded(report)
    shell = Shell(path, capsys)
    said = shell("list")
    assert max(map(len, said.splitlines())) <= width
    assert "m: 2 replicas, 1 takes requests" in said
    _, header, first, second, *_ = said.splitlines()
    assert (first.split()[-1], second.split()[-1]) == ("v1", "...-a-very-long-name-rc2")
    assert ("ADDRESS" in header, "SOURCE" in header) == (width == 160, width == 160)
    assert ("PREDICT" in header) == (width > 80)
    assert "no replica of m is left" in shell("drain", "long-pool/0")


def test_json_has_the_whole_of_it(replicas: Shell) -> None:
    rows = replicas.json("list", "--model", "org/m2")
    assert [row["id"] for row in rows] == ["narrow/0", "narrow/1", "only/0"]
    assert rows[2] == {
        "object": "replica",
        "model": "org/m2",
        "pool": "only",
        "id": "only/0",
        "address": "grpc://10.0.0.9:50051",
        "source": "static",
        "version": "",
        "shape": {"tp": 1, "ep": 1, "pp": 1},
        "role": "both",
        "group": None,
        "state": "ready",
        "reason": "",
        "workers": 1,
        "running": 3,
        "waiting": 1,
        "kv_blocks_used": 100,
        "kv_blocks_total": 400,
        "in_flight": 2,
        "share": 0.4,
        "breaker_seconds": 0.0,
        "accuracy": 0.9,
        "drain": None,
    }


def test_drain_and_resume(replicas: Shell) -> None:
    assert "draining wide of m: what still runs there in 30 s moves on" in replicas("drain", "wide")
    assert "wide/0: it is to be drained (cli:" in replicas("list", "--model", "m")
    drained = replicas.json("list", "--model", "m")[0]["drain"]
    assert (drained["target"], drained["grace_seconds"]) == ("wide", 30.0)
    assert drained["actor"].startswith("cli:")
    assert replicas.json("drain", "narrow/1", "--model", "m", "--grace", "0")["grace_seconds"] == 0.0
    assert "no replica of m is left" in replicas("drain", "narrow", "--model", "m")
    assert replicas("resume", "wide") == "resumed wide of m\n"
    assert replicas("resume", "wide") == "wide was not drained\n"
    ended = replicas.json("resume", "narrow", "--model", "m")["drains"]
    assert [drain["target"] for drain in ended] == ["narrow", "narrow/1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["drain", "x"], "There is no replica or pool 'x'; there are wide, wide/0, narrow"),
        (["resume", "x"], "There is no replica or pool 'x'"),
        (["drain", "narrow"], "model: several have 'narrow': m, org/m2"),
        (["list", "--model", "x"], "There is no model 'x'; there are m, org/m2"),
        (["drain", "wide", "--grace", "-1"], "grace_seconds: expected 0 to 86400"),
        (["drain", "wide", "--grace", "nan"], "grace_seconds: expected 0 to 86400"),
    ],
)
def test_a_mistake_is_one_line(replicas: Shell, arguments: list[str], said: str) -> None:
    assert said in replicas.refusal(*arguments)
    assert all(row["drain"] is None for row in replicas.json("list"))
