"""A gateway in front of replica processes that a test may kill and freeze."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e.raw import ask
from tests.e2e.replica_processes import ReplicaProcess, addresses, two_pools
from tests.e2e.stack import Stack, eventually
from tests.ports import free_port


class Site:
    """A gateway with two workers, in front of two pools of four replicas, each a process."""

    def __init__(self, folder: Path, pace_ms: float) -> None:
        pools = {name: addresses(folder, name, 4) for name in ("east", "west")}
        self.replicas = {
            f"{name}/{number}": ReplicaProcess(address, pace_ms)
            for name, found in pools.items()
            for number, address in enumerate(found)
        }
        self.stack = Stack(folder, two_pools(free_port(), pools))

    def start(self) -> None:
        self.stack.start()
        self.wait_ready(8)

    def close(self) -> None:
        self.stack.close()
        for replica in self.replicas.values():
            replica.kill()

    def ready(self) -> int:
        """Replicas that take requests, as the worker says that the kernel picked."""
        _, _, body = ask(self.stack, method="GET", path="/readyz")
        found: int = json.loads(body)["models"]["mixtral-8x7b"]["ready"]
        return found

    def agree_on(self, count: int) -> bool:
        """Whether both workers say so, as far as a few questions tell."""
        return all(self.ready() == count for _ in range(12))

    def wait_ready(self, count: int) -> float:
        return eventually(lambda: self.agree_on(count), f"{count} replicas take requests")

    def moved_from(self, replica_id: str) -> int:
        """Answers with tokens that the log says to have lost that replica."""
        return self.stack.errors.count(f"replica {replica_id} failed after ")

    def list(self) -> dict[str, dict[str, Any]]:
        done = self.stack.run("replicas", "list", "--json")
        assert done.returncode == 0, done.stderr
        return {row["id"]: row for row in json.loads(done.stdout)}

    def wait_state(self, wanted: Callable[[dict[str, dict[str, Any]]], bool], what: str) -> None:
        eventually(lambda: wanted(self.list()), what)
