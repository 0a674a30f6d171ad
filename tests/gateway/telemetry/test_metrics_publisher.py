"""A worker's metrics from its configuration."""

from pathlib import Path

import msgspec
import pytest

from gateway.config.observability.metrics import Metrics
from gateway.config.settings import Config
from gateway.telemetry.metrics_publisher import FOLDER, MetricsPublisher, begin_metrics
from observability.metrics import declarations as declared
from observability.metrics.merge import read
from tests.gateway.telemetry.counted import Counted, Running
from tests.observability.metrics.records import record


def config_at(folder: Path) -> Config:
    pool = {"name": "wide", "engine": "simulated", "replicas": 1}
    model = {"name": "m", "tokenizer": "t", "context": 9, "pools": [pool]}
    return msgspec.convert({"state": str(folder), "listen": {"workers": 3}, "models": [model]}, Config)


def test_a_gateway_begins_at_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / FOLDER
    begin_metrics(config_at(tmp_path))
    for name in ("a.metrics", "a.lock", "a.metrics.part", "ended", "places", "others"):
        (folder / name).write_text("x")
    begin_metrics(config_at(tmp_path))
    assert [path.name for path in folder.iterdir()] == ["others"], "what is not ours stays"
    (tmp_path / "file").write_text("x")
    begin_metrics(config_at(tmp_path / "file"))
    assert len(caplog.records) == 1


async def test_from_start_to_end(tmp_path: Path) -> None:
    config = config_at(tmp_path)

    counted = Counted(waiting=2)
    publisher = MetricsPublisher(config, {"m": counted}, [Running("m")], counted, counted, Metrics().tenants)
    publisher.start({"journal": counted})
    publisher.sink.take([record(), record(model="unknown")])
    await publisher.sink.aclose()
    await publisher.aclose()
    await publisher.aclose()
    merged = read(tmp_path / FOLDER)
    assert merged.numbers.values[declared.REQUESTS.name] == {
        ("chat", "m", "acme", "ok"): 1,
        ("chat", "other", "acme", "ok"): 1,
    }
    assert merged.numbers.values[declared.TELEMETRY_DROPPED.name] == {("journal",): 2, ("metrics",): 0}
    assert merged.numbers.values[declared.WORKERS.name] == {(): 0}
    assert declared.QUEUE_DEPTH.name not in merged.numbers.values, "of a worker that has ended nothing is now"
