"""The command line of shapes, in this process, over a controller's records."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.cli.main import main
from tests.gateway.reshaping import relaunched
from tests.gateway.reshaping.shapes import ADDRESSES, World, config_of, shapes_world
from tests.loops import bounded

TEXT = {
    "name": "m",
    "tokenizer": "mistral-tekken",
    "context": 400_000,
    "pools": [{"name": "p", "engine": "simulated", "replicas": ADDRESSES}],
    "reshape": {"mode": "advise"},
}


class Shell:
    """The commands, and a controller that acts when it is told to."""

    def __init__(self, url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        path = folder / "c.yaml"
        path.write_text(msgspec.yaml.encode({"models": [TEXT], "store": {"url": url}}).decode())
        self._config, self._capsys = str(path), capsys

    def __call__(self, *arguments: str) -> str:
        assert main(["reshape", *arguments, "--config", self._config]) == 0
        return self._capsys.readouterr().out

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def refusal(self, *arguments: str) -> str:
        self._capsys.readouterr()  # what controllers and other tests' loops have said until now
        assert main(["reshape", *arguments, "--config", self._config]) == 1
        said = self._capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1), said.err
        return said.err

    def act(self, *needs: int, rounds: int = 3) -> None:
        """Have a controller act for some rounds."""

        async def run() -> None:
            async with shapes_world(self.url, config_of(mode="advise")) as world:
                world.now = time.time()
                world.wants(*needs)
                await world.kill()
                world.now = time.time()
                await world.round(world.controller(), seconds=0.01, times=rounds)

        bounded(run)


@pytest.fixture
def shell(store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(store_url, tmp_path, capsys)


def test_groups_are_shown(shell: Shell) -> None:
    assert "no controller acts now: nothing was told yet" in shell("status")
    shell.act(300_000)
    said = shell("status")
    assert "m: changes are advised, and none is made" in said
    assert "4 x TP1" in said
    assert "TP4: 450000" in said
    assert "g would go from 4 x TP1 to TP4: a request of 300000 tokens waits for a TP4 replica" in " ".join(
        said.split()
    )
    assert shell.json("status", "m")["models"][0]["groups"][0]["shape"] == [1, 1, 1, 1]


def test_groups_fit_the_width_when_their_shape_has_changed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.act()
    shell("apply", "m", "g", "4", "--wait", "0")
    shell.act()
    for width in (60, 80, 140):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = shell("status").splitlines()
        assert max(map(len, lines)) <= width
        assert any(line.split()[:3] == ["LAST", "CHANGE", "1"] for line in lines) == (width < 100)
        assert "0.00 short requests/s, 0.00 long ones" in lines[1]


def test_it_is_said_what_nothing_is_decided_for_want_of(shell: Shell) -> None:
    async def run() -> None:
        async with relaunched.relaunch_world(shell.url, relaunched.config_of({}, mode="advise")) as world:
            await world.round(times=3)

    bounded(run)
    why = "nothing is decided of narrow/wide: no replica of pool narrow was ever seen"
    assert why in " ".join(shell("status").split())
    assert "TP1: ?, TP4: ?" in shell("status")
    assert shell("plan", "m").startswith(f"no shape of m would be changed now\n{why}")
    assert list(shell.json("plan", "m")["undecided"]) == ["narrow/wide"]


def test_a_plan_changes_nothing(shell: Shell) -> None:
    shell.act(300_000)
    assert "costs 1.2 GPU seconds" in shell("plan", "m")
    assert "it costs 0.6 GPU seconds" in shell("plan", "m", "g", "2,1,1")
    assert "refused: it has that shape" in shell("plan", "m", "g", "1,1,1,1")
    assert shell.json("plan", "m")["advice"]["after"] == [4]
    shell.act()
    assert shell("plan", "m") == "no shape of m would be changed now\n"


def test_history_says_what_was_advised(shell: Shell) -> None:
    assert shell("history") == "no shape has been changed yet\n"
    shell.act(300_000)
    said = " ".join(shell("history", "m").split())
    assert "m g advised, 4 x TP1 to TP4: TP4 would be better" in said


def test_an_order_waits_for_a_controller(shell: Shell) -> None:
    shell.act()
    said = shell("apply", "m", "g", "4", "--wait", "0")
    assert said == "g goes to TP4\n"


def test_an_order_is_followed_to_its_end(store_url: str, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.act()
    found = []

    async def run() -> None:
        async with shapes_world(store_url, config_of(mode="off")) as world:
            world.now = time.time()
            await world.kill()
            world.now = time.time()
            acting = asyncio.create_task(keep(world))
            found.append(await asyncio.to_thread(shell, "apply", "m", "g", "4", "--wait", "20"))
            acting.cancel()

    bounded(run)
    assert found[0].startswith("g is TP4 after ")


async def keep(world: World) -> None:
    controller = world.controller()
    while True:
        await world.round(controller, seconds=0.05)
        await asyncio.sleep(0.05)


def test_what_is_wrong_is_said_in_a_line(shell: Shell) -> None:
    shell.act()
    assert "TP3 is no power of two" in shell.refusal("apply", "m", "g", "3,1")
    assert "has no group 'h'" in shell.refusal("apply", "m", "h", "4")
    assert "The shapes of no model 'x' change" in shell.refusal("status", "x")
    assert "GROUP needs a SHAPE" in shell.refusal("plan", "m", "g")
    assert "no change of m is advised now" in shell.refusal("apply", "m")
