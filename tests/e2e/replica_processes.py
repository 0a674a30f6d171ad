"""Replica processes that a test may kill and freeze, and the configuration of a gateway in front of them."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.e2e.stack import MODEL, config_text


class ReplicaProcess:
    """One `penstock replica` with a simulated engine, whose every step takes `pace_ms`."""

    def __init__(self, address: str, pace_ms: float) -> None:
        self.address = address
        self._command = [sys.executable, "-m", "gateway.cli.main", "replica", "--engine", "simulated", "--model", MODEL]
        self._command += ["--tp", "2", "--pace-ms", str(pace_ms), "--listen", address]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGCONT)
        self._process.kill()
        self._process.wait()


def addresses(folder: Path, pool: str, count: int) -> list[str]:
    return [f"unix:{folder}/{pool}{number}.sock" for number in range(count)]


def two_pools(port: int, pools: dict[str, list[str]], workers: int = 2) -> str:
    """Like `config_text`, with pools that run elsewhere."""
    text = config_text(port, workers=workers)
    written = [
        f"      - {{name: {name}, shape: {{tp: 2}}, engine: simulated, replicas: [{', '.join(found)}]}}"
        for name, found in pools.items()
    ]
    lines = text.splitlines()
    (at,) = [number for number, line in enumerate(lines) if "name: narrow" in line]
    return "\n".join([*lines[:at], *written, *lines[at + 1 :]]) + "\n"
