import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.cli.main import main
from gateway.scaling.status import STATUS, ModelStatus
from gateway.scaling.stored_decisions import DECISIONS
from tests.gateway.admin.scaling_samples import decision, model, pool, progress, status
from tests.gateway.admin.test_scaling_operations import ADD, MODELS, TELL
from tests.loops import bounded
from tests.stores import running


class Shell:
    """The command line, in this process."""

    def __init__(
        self, store_url: str, folder: Path, capsys: pytest.CaptureFixture[str], scaling: Mapping[str, Any] = {}
    ) -> None:
        models = [MODELS[0] | {"scaling": scaling}, *MODELS[1:]]
        path = folder / "c.yaml"
        path.write_text(msgspec.yaml.encode({"models": models, "store": {"url": store_url}}).decode())
        self._config = str(path)
        self._url = store_url
        self._capsys = capsys

    def __call__(self, *arguments: str) -> str:
        assert main(["scale", *arguments, "--config", self._config]) == 0
        return self._capsys.readouterr().out

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def refusal(self, *arguments: str) -> str:
        assert main(["scale", *arguments, "--config", self._config]) == 1
        said = self._capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        return said.err

    def tell(self, told: ModelStatus) -> None:
        async def put() -> None:
            async with running(self._url) as store:
                await store.run(TELL, [STATUS], [msgspec.json.encode(status(at=time.time(), models=[told]))])
                for wanted in (4, 5):
                    await store.run(ADD, [DECISIONS], [msgspec.json.encode(decision(1e9 + wanted, wanted))])

        bounded(put)


@pytest.fixture
def scale(store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(store_url, tmp_path, capsys)


@pytest.mark.parametrize("width", [80, 150])
def test_the_list_tells_what_is_wanted_why_and_what_it_costs(
    scale: Shell, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    failed = progress(9, "failed", problem="no such checkpoint\x1b[2J")
    pools = [pool(failed=[failed], problem="the launcher has not answered to observe for 61 s")]
    scale.tell(model(pools=pools, fixed={"own": 2}))
    said = scale("list")
    lines = said.splitlines()
    assert lines[0].startswith("controller host-1 since ")
    assert lines[2] == "m: scales; 12.50 USD/h, 12.50 as wanted"
    assert lines[4].split() == ["small", "tp1", "1", "6", "4", "5", "2", "3", "0", "2.50", "auto"]
    assert "small-3: load" in said
    assert "small-9: no such checkpoint" in said
    assert "has not answered to observe for 61 s" in said
    assert "the load needs 4" in said
    assert "  7.50 requests/s in the last 30 s, of 0 tokens in" in said
    assert "ready in pools without a launcher, and counted: 2 of own" in said
    assert "\x1b" not in said
    assert all(len(line) <= width for line in lines)


def test_without_a_controller_it_says_so(scale: Shell) -> None:
    assert scale("list").startswith("no controller has told anything yet")
    assert "nothing has been decided on m yet" in scale("explain", "m")


def test_where_nothing_scales_it_says_so(store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plain.yaml"
    pool = {"name": "p", "engine": "simulated", "replicas": ["grpc://h:1"]}
    plain = {"name": "m", "tokenizer": "t", "context": 9, "pools": [pool]}
    path.write_text(msgspec.yaml.encode({"models": [plain], "store": {"url": store_url}}).decode())
    assert main(["scale", "list", "--config", str(path)]) == 0
    assert capsys.readouterr().out == "no model scales: no pool has a launcher\n"


def test_decisions_are_explained_with_their_inputs(scale: Shell) -> None:
    scale.tell(model())
    said = scale("explain", "m", "--last", "1")
    assert "small 5 (needed 4)" in said
    assert "small 4" not in said
    assert "load 4" in said
    assert said.count("the load needs 4") == 1
    assert [record["pools"]["small"]["wanted"] for record in scale.json("explain", "m")["decisions"]] == [4, 5]


def test_sizes_and_pauses(scale: Shell) -> None:
    assert scale("set", "small", "3") == "small of m gets 3 replicas, until auto is set\n"
    assert scale.json("list")["models"][0]["pools"][0]["pinned"] == 3
    assert scale("set", "small", "auto") == "small of m gets what is wanted again\n"
    assert scale.json("list")["models"][0]["pools"][0]["pinned"] is None
    assert scale("pause", "m").startswith("paused m")
    assert "m: paused" in scale("list")
    assert scale.json("resume", "m") == {
        "object": "scaling.override",
        "model": "m",
        "mode": "act",
        "paused": False,
        "pinned": {},
    }


def test_where_advice_is_only_told_so_is_what_is_set(
    store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    advised = Shell(store_url, tmp_path, capsys, {"mode": "advise"})
    assert advised("set", "small", "3").endswith("(advice only: nothing is started or stopped)\n")
    assert advised("pause", "m").endswith("(advice only: nothing is started or stopped)\n")
    assert "m: advice only" in advised("list")


def test_a_mistake_is_one_line_that_names_it(scale: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No pool 'x' scales; those that do: small." in scale.refusal("set", "x", "3")
    assert "expected 0 to 6, the pool's max, got 7" in scale.refusal("set", "small", "7")
    assert "No model 'other' scales; there are m." in scale.refusal("pause", "other")
    with pytest.raises(SystemExit):
        scale("set", "small", "many")
    assert "expected a number or auto, got 'many'" in capsys.readouterr().err
    for last in ("0", "101", "-1", "x", "1.5"):
        with pytest.raises(SystemExit):
            scale("explain", "m", f"--last={last}")
        assert f"expected a number from 1 to 100, got '{last}'" in capsys.readouterr().err
