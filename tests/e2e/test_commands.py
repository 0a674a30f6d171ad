"""`penstock check` and `penstock schema`, and starts that cannot be: one clear line, no leftovers."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.stack import HANGS_SECONDS, PENSTOCK, Stack, config_text
from tests.ports import free_port

SHIPPED = Path(__file__).parents[2] / "penstock.yaml"


def penstock(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [PENSTOCK, *arguments], capture_output=True, text=True, timeout=HANGS_SECONDS, cwd=folder, check=False
    )


def test_check(tmp_path: Path) -> None:
    done = penstock("check", "--config", str(SHIPPED), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "7 replicas" in done.stdout
    assert list(tmp_path.iterdir()) == [], "checking starts and leaves nothing"


def test_schema(tmp_path: Path) -> None:
    done = penstock("schema", folder=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["title"] == "Penstock configuration"


@pytest.mark.parametrize(
    ("found", "instead", "said"),
    [
        ("context: 32768", "context: many", "models[0].context"),
        ("tp: 2", "tp: 0", "models[0].pools[0].shape.tp"),
        ("models:", "modles:", "modles"),
        ("mistral-tekken", "./no/such/folder", "models[0].tokenizer"),
        ("engine: simulated", "engine: vllm", "models[0].pools[0].engine"),
        ("url: embedded", "url: unix:///tmp/penstock-no-such.sock", "does not answer"),
        ("listen: {", "listen: [", "penstock.yaml"),
        ("host: 127.0.0.1", "host: 192.0.2.1", "192.0.2.1"),
    ],
)
def test_a_start_that_cannot_be(found: str, instead: str, said: str, tmp_path: Path) -> None:
    text = config_text(free_port())
    assert found in text
    stack = Stack(tmp_path, text)
    stack.config.write_text(text.replace(found, instead), encoding="utf-8")
    stack.launch()
    try:
        assert stack.wait() == 1
        lines = stack.errors.splitlines()
        assert said in stack.errors
        assert "Traceback" not in stack.errors
        assert len(lines) == 1, stack.errors
        stack.wait_gone()
    finally:
        stack.close()


def test_no_configuration_at_all(tmp_path: Path) -> None:
    done = penstock("serve", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "penstock.yaml" in done.stderr


def test_keys_without_a_running_gateway(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text(config_text(free_port()), encoding="utf-8")
    done = penstock("keys", "list", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "penstock serve" in done.stderr


def test_a_replica_that_cannot_start(tmp_path: Path) -> None:
    """It says why in a line of its own; the supervisor's line says which pool that was."""
    (tmp_path / "empty").mkdir()
    stack = Stack(tmp_path, config_text(free_port()).replace("mistral-tekken", "./empty"))
    stack.launch()
    try:
        assert stack.wait() == 1
        # The admin API, which starts beside the replicas, may have been quicker to say that it is up.
        said = [line for line in stack.errors.splitlines() if "admin API on" not in line]
        assert len(said) == 2, stack.errors
        assert "mixtral-8x7b/narrow" in stack.errors
        assert str(tmp_path / "empty") in stack.errors
        assert "Traceback" not in stack.errors
        stack.wait_gone()
    finally:
        stack.close()
