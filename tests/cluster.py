"""A cluster of one node or more: the embedded Valkey's binary on TCP ports of this machine."""

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import redis

from gateway.store import with_parent
from gateway.store.embedded import _binary
from tests.loops import SOON_SECONDS
from tests.ports import free_port

SLOTS = 16384


class Cluster:
    """Its nodes' processes; `url` names them all."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._folder = folder
        self.ports = [free_port() for _ in range(nodes)]
        self._processes = [self._start(port) for port in self.ports]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def pid(self, node: int) -> int:
        return self._processes[node].pid

    def client(self, node: int) -> redis.Redis:
        return redis.Redis(host="127.0.0.1", port=self.ports[node])

    def _start(self, port: int) -> "subprocess.Popen[bytes]":
        folder = self._folder / str(port)
        folder.mkdir()
        options = {"port": port, "bind": "127.0.0.1", "cluster-enabled": "yes", "save": "", "dir": folder}
        command = [_binary(), *(str(part) for name, value in options.items() for part in (f"--{name}", value))]
        # A test run that is killed leaves none behind.
        launch = [sys.executable, "-I", "-S", with_parent.__file__, str(os.getpid()), *command]
        return subprocess.Popen(launch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def form(self) -> None:
        """Divide the slots evenly, and wait until every node knows it."""
        share = -(-SLOTS // len(self.ports))
        for node, port in enumerate(self.ports):
            with self.client(node) as client:
                _until(client.ping)
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", node * share, min(SLOTS, (node + 1) * share) - 1)
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", node + 1)
                if port != self.ports[0]:
                    client.execute_command("CLUSTER", "MEET", "127.0.0.1", self.ports[0])
        for node in range(len(self.ports)):
            _until(functools.partial(self._formed, node))

    def _formed(self, node: int) -> bool:
        with self.client(node) as client:
            info, slots, links = (client.execute_command("CLUSTER", part) for part in ("INFO", "SLOTS", "LINKS"))
        # A node that knows another one's slots may have no link to it yet, or does not know whose the link is that the
        # other one has to it: what is published meanwhile is lost. A link is listed once it is known to be a node's.
        linked = len(links) == 2 * (len(self.ports) - 1)
        return linked and "cluster_state:ok" in str(info) and len(slots) == len(self.ports)

    def flush(self) -> None:
        for node in range(len(self.ports)):
            with self.client(node) as client:
                client.flushall()

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def _until(condition: Callable[[], object]) -> None:
    """Nodes find each other by themselves, and nothing tells when they have."""
    deadline = time.monotonic() + SOON_SECONDS
    while True:
        with contextlib.suppress(redis.exceptions.RedisError):
            if condition():
                return
        assert time.monotonic() < deadline, "the cluster does not form"
        time.sleep(0.01)


@contextlib.contextmanager
def cluster(nodes: int = 1) -> Iterator[Cluster]:
    """A running cluster."""
    with tempfile.TemporaryDirectory(prefix="penstock-cluster-", ignore_cleanup_errors=True) as name:
        made = Cluster(Path(name), nodes)
        try:
            made.form()
            yield made
        finally:
            made.stop()
