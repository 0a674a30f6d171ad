"""The command line of rollouts, in this process, over a controller's records."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.cli.main import main
from gateway.cli.rollout.rollout_text import status_lines
from routing.rollouts.facts import Compared
from tests.gateway.admin.rollout_samples import live_rollouts
from tests.gateway.admin.rollout_samples import rollout as sample
from tests.gateway.rollouts.worlds import World, config_of, rollout_world
from tests.loops import bounded


class Shell:
    """The commands, and a controller that takes orders when it is told to."""

    def __init__(self, url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        path = folder / "c.yaml"
        path.write_text(msgspec.yaml.encode({"models": [as_text()], "store": {"url": url}}).decode())
        self._config, self._capsys = str(path), capsys

    def __call__(self, *arguments: str) -> str:
        assert main(["rollout", *arguments, "--config", self._config]) == 0
        return self._capsys.readouterr().out

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def refusal(self, *arguments: str) -> str:
        assert main(["rollout", *arguments, "--config", self._config]) == 1
        said = self._capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        return said.err

    def act(self, *phases: str, **changes: Any) -> None:
        """Have a controller act until the rollout is in one of the phases."""

        async def run() -> None:
            async with rollout_world(self.url) as world:
                world.now = 1_700_000_000.0
                for name, value in changes.items():
                    setattr(world, name, value)
                await world.kill()
                await self._until(world, phases)

        bounded(run)

    async def _until(self, world: World, phases: tuple[str, ...]) -> None:
        one = world.controller()
        await world.until(one, *phases, seconds=60.0)
        if "shifting" in phases:
            await world.round(one)


def as_text() -> dict[str, Any]:
    (model,) = config_of().models
    pools = [
        {"name": pool.name, "engine": pool.engine, "replicas": list(pool.addresses), "version": pool.version}
        for pool in model.pools
    ]
    return {"name": "m", "tokenizer": "mistral-tekken", "context": 4096, "stable": "v1", "pools": pools}


@pytest.fixture
def rollout(store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(store_url, tmp_path, capsys)


def test_a_rollout_from_its_order_to_its_end(rollout: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert rollout("history") == "nothing has been rolled out yet\n"
    assert "m: v1 is stable; it has had no rollout" in rollout("status", "m")
    began = rollout("start", "m", "--to", "v2", "--stages", "50%,100%", "--min-requests", "50")
    assert began.splitlines() == [
        "m goes from v1 to v2 (canary: 50 %, 100 %)",
        "no controller acts now: it begins when one does",
    ]
    assert "until a controller takes it" in rollout("status", "m")
    assert "a rollout of m to v2 is under way" in rollout.refusal("start", "m", "--to", "v2")
    rollout.act("shifting")
    shown = rollout("status", "m")
    assert "stage 1 of 2: 2 replicas warm" in shown
    assert "[####################...................|] 50 % to v2, 50 requests in this stage" in shown
    assert "preparing: cli:" in shown
    assert shown.splitlines()[-1].endswith(" stage 1, 50 %: 2 replicas warm")
    header, row = rollout("list").splitlines()
    assert header.split()[:4] == ["MODEL", "STABLE", "CANDIDATE", "PLAN"]
    assert "stage 1 of 2" in row
    monkeypatch.setenv("COLUMNS", "60")
    narrow = [line.split(maxsplit=1) for line in rollout("list").splitlines()]
    assert ["PHASE", "stage 1 of 2"] in narrow and ["CANDIDATE", "v2"] in narrow
    monkeypatch.setenv("COLUMNS", "100")
    assert "as good" in row
    assert rollout("pause", "m").startswith("the rollout of m stays where it is")
    assert rollout("resume", "m").startswith("the rollout of m goes on")
    assert rollout("abort", "m").startswith("m goes back to v1")
    rollout.act("rolled_back")
    assert rollout.json("list")["models"][0]["totals"]["rolled_back"] == {"aborted": 1}
    ended = rollout("status", "m")
    assert "  rolled back: an operator has aborted it" in ended
    assert " rolled back: v2 has no more requests" in ended
    lines = rollout("history", "m", "--last", "2").splitlines()
    assert "v2 rolling back: an operator has aborted it" in lines[0]
    assert "No rollout of 'm' is under way" in rollout.refusal("promote", "m")


def test_why_it_was_rolled_back_is_told_at_any_width(rollout: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    rollout("start", "m", "--to", "v2", "--plan", "blue-green")
    rollout.act("rolled_back", compared=Compared(kind="worse", reason="2.1 % of its answers failed, of 1 %."))
    for width in ("40", "200"):
        monkeypatch.setenv("COLUMNS", width)
        shown = rollout("status", "m")
        assert "2.1 % of its answers failed" in " ".join(shown.split())
        assert max(map(len, shown.splitlines())) <= int(width)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stages", "0.5,2"], "shares over 0 and up to 1"),
        (["--stages", "half"], "expected shares as 0.1,0.5,1"),
        (["--hold-seconds", "nan"], "0 to 604800 seconds"),
        (["--min-requests", "-1"], "a number from 0 to 1000000"),
        (["--surge", "0"], "a number from 1 to 1024"),
        (["--plan", "rolling"], "expected canary, blue-green, shadow, ab, gates, got 'rolling'"),
        (["--plan", "ab", "--goal", "speed"], "invalid choice: 'speed'"),
    ],
)
def test_arguments_are_checked(
    arguments: list[str], message: str, rollout: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["rollout", "start", "m", "--to", "v2", *arguments])
    assert message in capsys.readouterr().err


def test_an_ab_test_needs_a_goal_and_plans_have_two_spellings(rollout: Shell) -> None:
    said = rollout.refusal("start", "m", "--to", "v2", "--plan", "ab")
    assert said.startswith(
        "penstock rollout: --goal: required for the plan ab, which is about one measure: ttft, tpot, "
    )
    assert rollout.refusal("start", "m", "--to", "v2", "--better", "higher").startswith("penstock rollout: --better: ")
    assert "goal: only for the plan ab" in rollout.refusal("start", "m", "--to", "v2", "--goal", "ttft")
    view = rollout.json("start", "m", "--to", "v2", "--plan", "ab", "--goal", "thumbs_up")
    assert view["rollout"]["settings"]["goal"] == {"measure": "thumbs_up", "better": "higher", "effect": 0.05}
    rollout("abort", "m")
    rollout.act("rolled_back")
    assert "(blue-green: 100 %)" in rollout("start", "m", "--to", "v2", "--plan", "blue_green")


def test_where_no_model_goes_by_version_it_says_what_would_make_one(
    store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = {
        "name": "m",
        "tokenizer": "mistral-tekken",
        "context": 4096,
        "pools": [{"name": "p", "engine": "simulated", "replicas": ["grpc://h:1"]}],
    }
    path = tmp_path / "plain.yaml"
    path.write_text(msgspec.yaml.encode({"models": [plain], "store": {"url": store_url}}).decode())
    for arguments in (["start", "m", "--to", "v2"], ["status", "m"], ["promote", "m"]):
        assert main(["rollout", *arguments, "--config", str(path)]) == 1
        said = "No model 'm' has versions; no model has `stable`, or pools of several versions."
        assert said in capsys.readouterr().err


def test_a_ratio_says_of_what_it_is() -> None:
    (versions, _) = live_rollouts(sample())
    lines = list(status_lines(versions.versions, 120))
    told = " ".join(" ".join(lines).split())
    assert "RATIO: how many times v1's the value of v2 is." in told
    assert "INTERVAL: has the true ratio with 99.97 %, at every look." in told
    (row,) = [line.split() for line in lines if line.split()[:1] == ["tpot"]]
    assert row == ["tpot", "21", "ms", "18", "ms", "x0.86", "x0.80", "to", "x0.92", "better"]


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("candidate", ["v2", "v3-with-a-rather-long-name-of-a-version"])
def test_a_status_fits_its_width_with_long_names(width: int, candidate: str) -> None:
    (versions, _) = live_rollouts(sample(candidate=candidate, requests=1190))
    lines = list(status_lines(versions.versions, width))
    assert max(map(len, lines)) <= width
    (header,) = [line.split() for line in lines if line.split()[:1] == ["MEASURE"]]
    assert header[1:3] == (["v1", candidate] if width == 140 or candidate == "v2" else ["STABLE", "CANDIDATE"])
    (bar,) = [line for line in lines if line.startswith("  [")]
    assert ("1190 requests in this stage" in bar) == (width == 140 or candidate == "v2")


@pytest.mark.parametrize(
    ("problem", "waits"),
    [
        ("no measure is worse", []),
        ("until it is promoted or aborted: no measure is worse", ["waits: until it is promoted or aborted"]),
        ("errors: 0 of 40 do not rule it out", ["waits: errors: 0 of 40 do not rule it out"]),
    ],
)
def test_what_a_verdict_says_is_told_once(problem: str, waits: list[str]) -> None:
    versions = live_rollouts(sample(problem=problem))[0]
    lines = [line.strip() for line in status_lines(versions.versions, 120)]
    assert [line for line in lines if line.startswith("waits")] == waits
    assert "as good: no measure is worse" in lines
