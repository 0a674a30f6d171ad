"""A replica process that registers itself, and the configuration of a gateway that has such replicas."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from gateway.store.embedded import embedded_url
from tests.e2e.observer import Observer
from tests.e2e.stack import HANGS_SECONDS, MODEL, config_text

POOL = "own"


class RegisteredReplica:
    """One `penstock replica --register` on a free port; what it logs is in a file."""

    def __init__(self, folder: Path, name: str, *options: str, pace_ms: float = 5) -> None:
        self._log = folder / f"{name}.log"
        command = [sys.executable, "-m", "gateway.cli.main", "replica", "--engine", "simulated", "--model", MODEL]
        command += ["--tp", "2", "--pace-ms", str(pace_ms), "--listen", "127.0.0.1:0"]
        command += ["--register", "env:STORE_URL", "--pool", POOL, *options]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, "STORE_URL": embedded_url(folder / "state")},
            )

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    @property
    def is_registered(self) -> bool:
        return "registered as" in self.log

    @property
    def address(self) -> str:
        """As it is in the store."""
        return "grpc://" + self.log.split("registered as grpc://")[1].split()[0].rstrip('",}')

    @property
    def id(self) -> str:
        """What the gateway calls it."""
        return f"{POOL}/127.0.0.1-{self.address.rpartition(':')[2]}"

    def observer(self) -> Observer:
        return Observer(self.address.removeprefix("grpc://"))

    def terminate(self) -> int:
        """End it in order."""
        self._process.terminate()
        return self._process.wait(HANGS_SECONDS)

    def kill(self) -> None:
        """End it as a machine that loses power."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def registered_text(port: int, version: str = "v1") -> str:
    """Like `config_text`, with one pool of replicas that register themselves."""
    lines = config_text(port).splitlines()
    (at,) = [number for number, line in enumerate(lines) if "name: narrow" in line]
    pool = f"      - {{name: {POOL}, shape: {{tp: 2}}, engine: simulated, replicas: registered, version: {version}}}"
    return "\n".join([*lines[:at], pool, *lines[at + 1 :]]) + "\n"
