"""SIGHUP ends none of the gateway's processes, not even one that is starting."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stack import HANGS_SECONDS, HEEDING, PENSTOCK, eventually
from tests.ports import free_port

SCALED = "{name: p, engine: simulated, replicas: registered, launcher: local, scaling: {min: 0, max: 1}}"
PICKED = "{name: p, engine: openai, replicas: ['http://127.0.0.1:1/v1']}"
SERVED = "{name: p, engine: simulated, replicas: 1}"


def config_text(folder: Path, pool: str) -> str:
    return f"""\
state: {folder / "state"}
listen: {{host: 127.0.0.1, port: {free_port()}, workers: 1, grace_seconds: 0, drain_seconds: 1}}
admin: {{port: {free_port()}}}
epp: {{port: {free_port()}, health_port: {free_port()}, metrics_port: {free_port()}}}
models: [{{name: m, tokenizer: mistral-tekken, context: 4096, pools: [{pool}]}}]
"""


@contextlib.contextmanager
def reading(command: str, folder: Path, text: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that gets a SIGHUP while it reads its file, which it then has; its words are in files of the folder."""
    file = folder / "penstock.yaml"
    os.mkfifo(file)
    with (folder / "stdout").open("wb") as output, (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen([*HEEDING, PENSTOCK, command, "--config", file], stdout=output, stderr=errors)
    try:
        # Opened once it reads.
        with file.open("w") as written:
            process.send_signal(signal.SIGHUP)
            # What is read again later is a file.
            (folder / "fresh.yaml").write_text(text)
            os.replace(folder / "fresh.yaml", file)
            written.write(text)
        yield process
    finally:
        process.terminate()
        process.wait(HANGS_SECONDS)


@pytest.mark.parametrize(("command", "pool"), [("admin", SERVED), ("controller", SCALED), ("epp", PICKED)])
def test_a_process_of_its_own_says_what_it_changes(state_dir: Path, command: str, pool: str) -> None:
    with reading(command, state_dir, config_text(state_dir, pool)) as process:

        def said(times: int) -> bool:
            assert process.poll() is None, (state_dir / "stderr").read_text()
            return (state_dir / "stderr").read_text().count("SIGHUP changes nothing here") == times

        eventually(lambda: said(1), "it says so of the one at its start")
        process.send_signal(signal.SIGHUP)
        eventually(lambda: said(2), "it says so again")
    assert process.returncode == 0
    assert "for a new configuration this process must be restarted" in (state_dir / "stderr").read_text()


def test_a_gateway_starts_all_the_same(state_dir: Path) -> None:
    with reading("serve", state_dir, config_text(state_dir, SERVED)) as process:

        def serves() -> bool:
            assert process.poll() is None, (state_dir / "stderr").read_text()
            return "Penstock is ready" in (state_dir / "stdout").read_text()

        eventually(serves, "it serves")
    assert process.returncode == 0
