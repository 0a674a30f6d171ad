"""A running `penstock serve` for a test, with every process it has started."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from tests.ports import free_port

PENSTOCK = Path(sys.executable).with_name("penstock")
#: Before a command that is sent SIGINT: a shell ignores it for what it runs in the background, tests included, and a
#: child inherits that. With `preexec_fn` a child would run what gRPC does after a fork, which may write to its stderr.
HEEDING = ("env", "--default-signal=INT")
MARK = "PENSTOCK_E2E"
MODEL = "mixtral-8x7b"
START_SECONDS = 30.0
STOP_SECONDS = 20.0


def eventually(check: Callable[[], bool], what: str, seconds: float = 10.0) -> float:
    """Wait until `check` holds; gives the seconds it took."""
    started = time.monotonic()
    while not check():
        if time.monotonic() - started > seconds:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(0.002)
    return time.monotonic() - started


def config_text(
    port: int,
    *,
    workers: int = 2,
    replicas: int = 1,
    simulated: str = "pace_ms: 2",
    listen: str = "drain_seconds: 5",
    state: str = "./state",
    store_seconds: float = 5,
    more: str = "",
) -> str:
    """The shipped configuration's shape with fewer replicas: one pool, one process; `more` are further sections.

    A stop has no grace unless `listen` gives one: nothing here is behind a load balancer.
    The store has more time than the half second that ships: a machine may stand still for as long.
    """
    if "grace_seconds" not in listen:
        listen += ", grace_seconds: 0"
    return f"""\
listen: {{host: 127.0.0.1, port: {port}, workers: {workers}, {listen}}}
admin: {{port: {free_port()}}}
state: {state}
store: {{url: embedded, timeout_seconds: {store_seconds:g}}}
models:
  - name: {MODEL}
    tokenizer: mistral-tekken
    context: 32768
    routing: {{policy: auto}}
    pools:
      - {{name: narrow, shape: {{tp: 2}}, engine: simulated, replicas: {replicas}, simulated: {{{simulated}}}}}
{more}"""


class Stack:
    """One supervisor in a process group of its own; every process under it carries a mark in its environment."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        self.config = folder / "penstock.yaml"
        self.config.write_text(text, encoding="utf-8")
        self.port, self.admin_port = map(int, re.findall(r"port: (\d+)", text))
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        self.key = ""
        self.state_dir = folder / "state"
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def output(self) -> str:
        return (self.folder / "stdout").read_text(encoding="utf-8")

    @property
    def errors(self) -> str:
        return (self.folder / "stderr").read_text(encoding="utf-8")

    def launch(self) -> None:
        """Start the command without waiting for it."""
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as err:
            self._process = subprocess.Popen(
                [*HEEDING, PENSTOCK, "serve", "--config", self.config, "--quickstart"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.folder,
                env={**os.environ, MARK: self._mark},
                start_new_session=True,
            )

    def start(self) -> float:
        """Start, and wait until it says that it is ready; gives the seconds that took."""
        self.launch()

        def announced() -> bool:
            assert self.process.poll() is None, f"it ended at its start:\n{self.errors}"
            return "Ctrl-C" in self.output

        try:
            seconds = eventually(announced, "penstock serve is ready", START_SECONDS)
        except AssertionError as error:
            error.add_note(f"{self.processes()}\n{self.output}\n{self.errors}")
            raise
        found = re.search(r"API key +(\S+)", self.output)
        assert found is not None
        self.key = found[1]
        return seconds

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run another penstock command on this stack's configuration."""
        return subprocess.run(
            [PENSTOCK, *arguments, "--config", str(self.config)],
            capture_output=True,
            text=True,
            timeout=30,
            cwd=self.folder,
            check=False,
        )

    def processes(self) -> dict[int, str]:
        """Every living process of this stack, the supervisor among them: pid to command line."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if self._owns(entry, command) and _alive(entry):
                        found[int(entry.name)] = command
        return found

    def _owns(self, entry: Path, command: str) -> bool:
        # Valkey writes its title over its environment; it names its socket there.
        mark = f"{MARK}={self._mark}".encode()
        return mark in (entry / "environ").read_bytes().split(b"\0") or (
            "valkey-server" in command and str(self.state_dir) in command
        )

    def pids(self, part: str) -> list[int]:
        return sorted(pid for pid, command in self.processes().items() if part in command)

    @property
    def workers(self) -> list[int]:
        return self.pids("spawn_main")

    @property
    def replicas(self) -> list[int]:
        return self.pids("gateway.cli.main replica")

    @property
    def admins(self) -> list[int]:
        return self.pids("gateway.cli.main admin")

    @property
    def stores(self) -> list[int]:
        return self.pids("valkey-server")

    def replica_socket(self, number: int = 0) -> Path:
        (found,) = self.state_dir.glob(f"replica-*-{number}.sock")
        return found

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        """To the supervisor alone, or to its group as a terminal's Ctrl-C does."""
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        return self.process.wait(seconds)

    def wait_gone(self, seconds: float = 10.0) -> None:
        """Once the supervisor has ended nothing is left; multiprocessing's own helper ends when it sees that."""
        deadline = time.monotonic() + seconds
        while left := self.processes():
            assert time.monotonic() < deadline, left
            time.sleep(0.01)

    def close(self) -> None:
        """End it if it still runs, and whatever it has left behind."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(STOP_SECONDS)

    def worker_of(self, connection: socket.socket) -> int:
        """The worker process that holds the other end of a connection."""
        local, peer = connection.getsockname()[1], connection.getpeername()[1]
        inode = ""
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if (int(fields[1].split(":")[1], 16), int(fields[2].split(":")[1], 16)) == (peer, local):
                inode = f"socket:[{fields[9]}]"
        for pid in self.workers:
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(descriptor.readlink()) == inode:
                        return pid
        raise AssertionError(f"no worker has {inode or 'the connection'}")


def rss(pid: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _alive(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
