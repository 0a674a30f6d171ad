"""Weights read ahead by predicted demand: which ones, in which order, and what becomes of a read that fails."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.settings import Config
from gateway.scaling import preloading
from gateway.scaling.preloading import Preloading, by_likelihood, checkpoints
from gateway.scaling.settings import ScaledModel, scaled_models
from replicas.controller.decision import Decision, PoolDecision
from replicas.controller.snapshot import Demand, Forecast
from replicas.fast_start.page_cache import Preloaded
from tests.loops import until

LAUNCHED = {"replicas": "registered", "launcher": "local", "scaling": {"min": 0, "max": 4}}


def config(folder: Path, **models: Sequence[str]) -> Config:
    """Models of this machine, each with the options of its replicas; `plain` is a simulated one."""
    made = []
    for name, arguments in models.items():
        engine = "simulated" if name == "plain" else "tensorrt_llm"
        pool: dict[str, Any] = {**LAUNCHED, "name": "p", "engine": engine, "replica_arguments": arguments}
        made.append({"name": name, "tokenizer": "t", "context": 9, "pools": [pool]})
    return msgspec.convert({"models": made}, Config)


class Known:
    """A model of which that is known."""

    def __init__(
        self, model: ScaledModel, *, wanted: int = 0, needed: int = 0, rate: float = 0.0, ahead: float | None = None
    ) -> None:
        self.model = model
        pools = {"p": PoolDecision(wanted=wanted, needed=needed)}
        self.decision: Decision | None = Decision(at=0.0, pools=pools, cost=None, inputs={}, reasons=[])
        self.demand: Demand | None = Demand(window=60.0, requests_per_second=rate)
        self.forecast: Forecast | None = None
        if ahead is not None:
            self.forecast = Forecast(made=0.0, step=60.0, mean=[ahead], upper=[0.0, ahead], method="m")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "abcd":
        (tmp_path / name).mkdir()
        (tmp_path / name / "w.safetensors").write_bytes(bytes(1 << 20))
    return tmp_path


def test_checkpoints_are_those_of_replicas_that_are_started_here(folder: Path) -> None:
    found = checkpoints(
        config(
            folder,
            x=["--checkpoint", f"{folder}/a"],
            y=[f"--checkpoint={folder}/b", "--kv-tokens", "9"],
            hub=["--checkpoint", "nvidia/some-model"],
            odd=["--checkpoint"],
            plain=[],
        )
    )
    assert found == {("x", "p"): folder / "a", ("y", "p"): folder / "b"}


def test_first_come_those_that_are_short_and_then_the_largest_rates_ahead(folder: Path) -> None:
    options = {name: ["--checkpoint", f"{folder}/{name}"] for name in "abcd"}
    made = config(folder, **options)
    a, b, c, d = scaled_models(made)
    folders = checkpoints(made)
    known = [
        Known(a, wanted=2, needed=2, rate=1.0),
        Known(b, wanted=1, needed=1, rate=0.5, ahead=9.0),
        Known(c, wanted=1, needed=3, rate=0.1),
        Known(d),
    ]
    known[3].decision = known[3].demand = None
    assert [path.name for path in by_likelihood(known, folders)] == ["c", "b", "a", "d"]
    assert by_likelihood(known, {}) == []


async def test_the_controller_reads_and_says_what_it_has_read(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preloading, "LOOK_SECONDS", 0.01)
    caplog.set_level("INFO")
    made = config(folder, x=["--checkpoint", f"{folder}/a"])
    acts = False
    running = asyncio.create_task(
        Preloading([Known(model) for model in scaled_models(made)], checkpoints(made), lambda: acts).run()
    )
    await asyncio.sleep(0.05)
    assert caplog.messages == []
    acts = True
    await until(lambda: bool(caplog.messages))
    (folder / "a" / "w.safetensors").unlink()
    (folder / "a").rmdir()
    await until(lambda: len(caplog.messages) == 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert caplog.messages[0] == "0.0 of 0.0 GB of weights are in the page cache"
    assert "weights cannot be read ahead" in caplog.messages[1]


async def test_a_read_that_is_under_way_is_stopped_at_the_end(folder: Path) -> None:
    reading, ended = threading.Event(), threading.Event()

    def read(folders: Sequence[Path], stop: threading.Event) -> Preloaded:
        reading.set()
        stop.wait(10.0)
        ended.set()
        return Preloaded(0, 0, 0)

    made = config(folder, x=["--checkpoint", f"{folder}/a"])
    running = asyncio.create_task(
        Preloading([Known(model) for model in scaled_models(made)], checkpoints(made), lambda: True, read).run()
    )
    await until(reading.is_set)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await until(ended.is_set)


async def test_without_weights_there_is_nothing_to_do() -> None:
    await Preloading([], {}, lambda: True).run()
