"""Counts what goes over wires: round trips and bytes to the store, bytes to clients and replicas."""

import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from loadtest.cost.cost_client import CostClient
from loadtest.cost.cost_stack import CostStack
from loadtest.load.processes import BenchError

ROUND_TRIPS: Final = "store round trips"
SCRIPTS: Final = "store scripts"
#: Of `INFO`; a read takes all that a client has sent, which is a whole pipeline.
_STORE: Final = {
    ROUND_TRIPS: r"^total_reads_processed:(\d+)",
    SCRIPTS: r"^cmdstat_evalsha:calls=(\d+)",
    "bytes to store": r"^total_net_input_bytes:(\d+)",
    "bytes from store": r"^total_net_output_bytes:(\d+)",
}
_INFO: Final = b"INFO everything\r\n"
_STORE_SECONDS: Final = 5.0
_TO_REPLICAS: Final = "bytes to replicas"
_FROM_REPLICAS: Final = "bytes from replicas"
#: What is counted in bytes.
WIRES: Final = (
    "bytes from clients",
    "bytes to clients",
    _TO_REPLICAS,
    _FROM_REPLICAS,
    "bytes to store",
    "bytes from store",
)
#: Of `ss`, from the worker's side.
_SENT: Final = re.compile(r"\bbytes_sent:(\d+)")
_RECEIVED: Final = re.compile(r"\bbytes_received:(\d+)")


def missing() -> str | None:
    """Return what is not counted here and why, if something is not."""
    return None if shutil.which("ss") else "bytes to and from replicas: there is no `ss` (iproute2)"


def wire_counter(stack: CostStack, client: CostClient) -> Callable[[Callable[[], None]], Mapping[str, float]]:
    """Return a function that does some work, and counts what went over the wires meanwhile."""

    def read() -> dict[str, float]:
        counts = {"bytes from clients": float(client.sent), "bytes to clients": float(client.received)}
        counts |= _of_store(str(stack.store))
        return counts | (_of_replicas(stack.worker_pid, stack.replicas) if missing() is None else {})

    def count(work: Callable[[], None]) -> Mapping[str, float]:
        before = read()
        work()
        after = read()
        return {name: value - before.get(name, 0.0) for name, value in after.items()}

    return count


def _of_store(path: str) -> dict[str, float]:
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_STORE_SECONDS)
            client.connect(path)
            client.sendall(_INFO)
            with client.makefile("rb") as reply:
                text = reply.read(int(reply.readline()[1:])).decode()
    except (OSError, ValueError) as error:
        raise BenchError(f"the store does not say what it has done: {error}") from None
    return store_counts(text)


def store_counts(info: str) -> dict[str, float]:
    """Read the store's `INFO`; what is not in it counts as 0, as scripts do that never ran."""
    found = {name: re.search(pattern, info, re.MULTILINE) for name, pattern in _STORE.items()}
    return {name: float(match[1]) if match else 0.0 for name, match in found.items()}


def _of_replicas(worker: int, ports: tuple[int, ...]) -> dict[str, float]:
    done = subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"ss failed: {done.stderr.strip()}")
    return replica_counts(done.stdout, worker, ports)


def replica_counts(sockets: str, worker: int, ports: tuple[int, ...]) -> dict[str, float]:
    """Add up the bytes of a process's connections to these ports, out of what `ss -tinpHO` prints."""
    sent = received = 0.0
    for line in sockets.splitlines():
        peer = line.split(maxsplit=5)[4]
        if f"pid={worker}," in line and int(peer.rpartition(":")[2]) in ports:
            sent += sum(float(value) for value in _SENT.findall(line))
            received += sum(float(value) for value in _RECEIVED.findall(line))
    return {_TO_REPLICAS: sent, _FROM_REPLICAS: received}
