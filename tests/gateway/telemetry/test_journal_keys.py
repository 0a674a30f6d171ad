"""Keys that are there before anything is written."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.settings import Config
from gateway.telemetry.journal_keys import TelemetryKeyError, make_keys


def config_of(state: Path, **journal: Any) -> Config:
    pool = {"name": "p", "engine": "simulated", "replicas": 1}
    model = {"name": "m", "tokenizer": "t", "context": 9, "pools": [pool]}
    return msgspec.convert({"state": str(state), "models": [model], "observability": {"journal": journal}}, Config)


def test_they_are_made_once(tmp_path: Path) -> None:
    for _ in range(2):
        make_keys(config_of(tmp_path / "state"))
    kept = {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()}
    assert set(kept) == {"digest.key", "journal.key"}
    make_keys(config_of(tmp_path / "state"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()} == kept


def test_only_what_is_needed(tmp_path: Path) -> None:
    make_keys(config_of(tmp_path / "none", enabled=False))
    assert not (tmp_path / "none").exists()
    make_keys(config_of(tmp_path / "plain", keyed=False))
    assert [path.name for path in (tmp_path / "plain").iterdir()] == ["digest.key"]


@pytest.mark.parametrize("name", ["digest.key", "journal.key"])
def test_one_that_cannot_be_used_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("nonsense")
    (tmp_path / name).chmod(0o600)
    with pytest.raises(TelemetryKeyError, match=name):
        make_keys(config_of(tmp_path))
