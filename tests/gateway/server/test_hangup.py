"""SIGHUP: nothing is reloaded, and the log says so, with what would change."""

import logging
from pathlib import Path

import pytest

from gateway.config.load import load_config
from gateway.server.hangup import changed_fields, say_what_changed

CONFIG = """\
listen: {{port: 8080{listen}}}
models:
  - name: big
    tokenizer: mistral-tekken
    context: 100
    pools: [{{name: p, engine: simulated, replicas: 1}}]
{more}"""
SMALL = """\
  - name: small
    tokenizer: mistral-tekken
    context: 100
    pools: [{name: p, engine: simulated, replicas: 1}]
"""


def written(folder: Path, listen: str = "", more: str = "") -> Path:
    path = folder / "penstock.yaml"
    path.write_text(CONFIG.format(listen=listen, more=more), encoding="utf-8")
    return path


def test_changed_fields_are_named_as_the_file_has_them(tmp_path: Path) -> None:
    before = load_config(written(tmp_path))
    assert list(changed_fields(before, before)) == []
    after = load_config(written(tmp_path, listen=", workers: 3, cors: {origins: ['*']}", more=SMALL))
    assert list(changed_fields(before, after)) == ["listen.workers", "listen.cors", "models[1] (added)"]
    assert list(changed_fields(after, before)) == ["listen.workers", "listen.cors", "models[1] (removed)"]


def test_what_it_does_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    path = written(tmp_path)
    config = load_config(path)
    say_what_changed(config, path)
    written(tmp_path, listen=", workers: 3")
    say_what_changed(config, path)
    path.write_text("listen: {prot: 1}", encoding="utf-8")
    say_what_changed(config, path)
    assert [record.getMessage() for record in caplog.records] == [
        f"SIGHUP reloads nothing; {path} says what runs already",
        f"SIGHUP reloads nothing; restart for what has changed in {path}: listen.workers",
        f"SIGHUP reloads nothing, and a restart would fail: {path}: listen.prot: unknown field; did you mean port?",
    ]


def test_many_changes_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = load_config(written(tmp_path))
    more = "".join(SMALL.replace("small", f"small-{number}") for number in range(30))
    say_what_changed(config, written(tmp_path, more=more))
    assert caplog.text.count("models[") == 20
    assert "and 10 more" in caplog.text
