"""A process that is restarted when it dies, and never runs twice."""

import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from gateway.config.secret_variables import ChildEnvironment, LateSecrets
from gateway.config.settings import Config
from gateway.server import child_process
from gateway.server.child_process import LAST_RESTART_SECONDS, ChildProcess, stop_together
from gateway.server.local_pools import LocalPools

UPSTREAM = {"api_key": {"env": "LATER"}}


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_one_that_was_started_before_its_restart_was_due_is_not_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, stays = Clock(), tmp_path / "stays"
    monkeypatch.setattr(child_process, "time", clock)
    text = f"import os, time; os.path.exists({str(stays)!r}) and time.sleep(60)"
    process = ChildProcess("it", [sys.executable, "-c", text])
    process.start()
    assert process._process is not None
    process._process.wait(10.0)
    process.watch()
    ended = [process.ended]
    stays.touch()
    process.start()
    try:
        ended.append(process.ended)
        assert ended == [True, False]
        running = process._process
        clock.now += LAST_RESTART_SECONDS
        process.watch()
        assert process._process is running
    finally:
        process.stop(clock.now)


async def test_what_is_restarted_after_a_reload_has_no_secret_that_it_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(child_process, "time", clock)
    monkeypatch.setenv("LATER", "sk-secret")
    text = f"import os; open({str(tmp_path / 'seen')!r}, 'a').write(os.environ.get('LATER', '-') + ' ')"
    late = LateSecrets()
    process = ChildProcess("it", [sys.executable, "-c", text], environment=ChildEnvironment((), late))
    process.start()
    for _ in range(2):
        assert process._process is not None
        process._process.wait(10.0)
        late.names = frozenset({"LATER"})
        process.watch()
        clock.now += LAST_RESTART_SECONDS
        process.watch()
    process.stop(clock.now)
    assert (tmp_path / "seen").read_text().split()[:2] == ["sk-secret", "-"]


async def test_local_pools_note_what_a_configuration_names(state_dir: Path) -> None:
    raw = {
        "state": str(state_dir),
        "models": [
            {
                "name": "m",
                "context": 9,
                "pools": [{"name": "p", "engine": "openai", "replicas": ["https://host/v1"], "upstream": UPSTREAM}],
            }
        ],
    }
    config = msgspec.convert(raw, Config)
    late = LateSecrets()
    pools = LocalPools(config, late)
    assert late.names == frozenset()
    await pools.prepare(config)
    assert late.names == {"LATER"}


def test_all_are_told_before_any_is_waited_for(tmp_path: Path) -> None:
    """Each ends only once the other one has been told."""
    told = [tmp_path / "told-0", tmp_path / "told-1"]
    processes = []
    for mine, other in (told, reversed(told)):
        text = (
            "import os, signal, time\n"
            f"signal.signal(signal.SIGTERM, lambda *_: open({str(mine)!r}, 'w').close())\n"
            f"open({str(mine) + '.ready'!r}, 'w').close()\n"
            f"while not (os.path.exists({str(mine)!r}) and os.path.exists({str(other)!r})): time.sleep(0.01)\n"
        )
        processes.append(ChildProcess("it", [sys.executable, "-c", text], [Path(f"{mine}.ready")]))
    for process in processes:
        process.start()
    deadline = time.monotonic() + 20.0
    for process in processes:
        process.wait_until_ready(deadline, threading.Event())
    running = [process._process for process in processes]
    stop_together(processes, deadline)
    assert [one.returncode for one in running if one is not None] == [0, 0]
