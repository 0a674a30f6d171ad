"""The fake's pool of MPI processes, which are none."""

from collections.abc import Callable
from typing import Any, ClassVar


class MpiPoolSession:
    """What it was asked to run in its processes is noted, and not run."""

    made: ClassVar[list["MpiPoolSession"]] = []

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self.ran: list[tuple[str, tuple[Any, ...]]] = []
        self.shut_down = False
        type(self).made.append(self)

    def submit_sync(self, task: Callable[..., Any], *arguments: Any) -> list[None]:
        assert not self.shut_down
        self.ran.append((task.__name__, arguments))
        return [None] * self.n_workers

    def shutdown(self, wait: bool = True) -> None:
        self.shut_down = True
