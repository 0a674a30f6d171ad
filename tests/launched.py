"""Launchers of tests: what they start is a small script, and an operator's commands are another."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from protos.types import Shape
from replicas.launchers.command_launcher import CommandLauncher
from replicas.launchers.gpu_share import GpuShare
from replicas.launchers.held_process import Holder
from replicas.launchers.launcher import ReplicaOrder
from replicas.launchers.local_launcher import LocalLauncher

#: Creates the file at its first argument once SIGTERM would be heard, and ends as its second argument says.
REPLICA = """
import os, signal, sys, time
kind = sys.argv[2]
if kind == "fail":
    print("loading", flush=True)
    sys.exit("no such checkpoint")
signal.signal(signal.SIGTERM, signal.SIG_IGN if kind == "deaf" else lambda *_: sys.exit(0))
child = kind == "parent" and os.fork() == 0
if not child:
    with open(sys.argv[1], "a") as begun:
        begun.write(f"{os.getpid()} {os.environ.get('CUDA_VISIBLE_DEVICES')}\\n")
while True:
    time.sleep(60)
"""

#: An operator's commands around a folder of documents, as a small cloud would be.
CLOUD = """
import json, pathlib, sys
folder, what = pathlib.Path(sys.argv[1]), sys.argv[2]
given = json.load(sys.stdin)
if what == "start":
    for order in given["replicas"]:
        path = folder / f"{order['id']}.json"
        if not path.exists():
            kind = order["version"]
            path.write_text(json.dumps({
                "id": order["id"], "model": order["model"], "pool": order["pool"], "spot": order["spot"],
                "since": 1e9, "step": "failed" if kind == "fail" else "process",
                "problem": "no such checkpoint" if kind == "fail" else "",
            }))
elif what == "observe":
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    print(json.dumps({"replicas": [one for one in found if one]}))
else:
    for id_ in given["ids"]:
        path = folder / f"{id_}.json"
        if path.exists():
            path.write_text("null")
"""


def order(id_: str, kind: str = "", *, gpus: int = 1, spot: bool = False) -> ReplicaOrder:
    """An order, whose version says how the replica behaves."""
    return ReplicaOrder(id=id_, model="m", pool="p", shape=Shape(tp=gpus), version=kind, spot=spot)


def local(
    folder: Path, gpus: Sequence[int] | None = None, clock: float | None = None, share: GpuShare | None = None
) -> LocalLauncher:
    """A launcher on this machine; `folder/ID.begun` has a line for each process of a replica.

    The GPUs of `share` are kept for the pool `grouped`.
    """

    def command_of(one: ReplicaOrder, address: str) -> list[str]:
        assert address == f"unix:{folder}/{one.id}.sock"
        return [sys.executable, "-I", "-S", "-c", REPLICA, str(folder / f"{one.id}.begun"), one.version]

    environment = {"PATH": os.environ["PATH"]}
    return LocalLauncher(
        folder / "launched",
        command_of,
        lambda id_: f"unix:{folder}/{id_}.sock",
        environment,
        gpus,
        shares={} if share is None else {("m", "grouped"): share},
        clock=time.monotonic if clock is None else lambda: clock,
    )


def command(folder: Path, timeout_seconds: float = 30.0) -> CommandLauncher:
    """A launcher with the commands of a small cloud."""
    folder.mkdir(exist_ok=True)
    call = [sys.executable, "-I", "-S", "-c", CLOUD, str(folder)]
    return CommandLauncher([*call, "start"], [*call, "observe"], [*call, "stop"], timeout_seconds)


def begun(folder: Path, id_: str) -> list[str]:
    """A line for each process of a replica that has begun: its id, and the GPUs that it was given."""
    path = folder / f"{id_}.begun"
    return path.read_text().splitlines() if path.exists() else []


@contextlib.contextmanager
def ended(folder: Path) -> Iterator[Path]:
    """Kill what still runs of a local launcher's folder at the end."""
    try:
        yield folder
    finally:
        for lock in (folder / "launched").glob("*.lock"):
            holder = Holder(lock)
            if holder.held and holder.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(holder.pid, signal.SIGKILL)


def write_answer(folder: Path, answer: object) -> list[str]:
    """A command that writes this, as JSON or as the text that it is."""
    path = folder / "answer"
    path.write_text(answer if isinstance(answer, str) else json.dumps(answer))
    return [sys.executable, "-I", "-S", "-c", f"print(open({str(path)!r}).read())"]
