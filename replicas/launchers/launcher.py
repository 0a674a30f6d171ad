"""Define `Launcher`, the seam for whatever starts and stops replicas, and the values that it takes and gives."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from protos.launch_step import LaunchStep as LaunchStep
from protos.types import Role, Shape

#: The id of a replica.
ID: Final = re.compile(r"[a-z0-9-]{1,63}")


class ReplicaOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One replica that shall run. `id` is unique for ever, 1 to 63 of `a-z0-9-`, and makes `start` idempotent.

    `spot` asks for preemptible capacity.
    """

    id: str
    model: str
    pool: str
    shape: Shape
    role: Role = Role.BOTH
    version: str = ""
    spot: bool = False


class LaunchedReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica as its launcher sees it. `since` is when it was started, in seconds since the epoch.

    `address` is empty while unknown. `step` is how far the launcher can see: one that knows processes alone says
    `process` for as long as the process lives, and the replica's own registration says the rest. `problem` says why it
    failed. `preempted_at`: when preemptible capacity will be taken away, in seconds since the epoch.

    `registers_as` is the launch id that it registers under where that is another one than `id`. `is_unplaced`: it has
    failed because nowhere is room for it, so that another one would fail as well. Of replicas with a `place` only those
    with the highest can be stopped without starting others anew.
    """

    id: str
    model: str
    pool: str
    step: LaunchStep
    since: float
    address: str = ""
    spot: bool = False
    problem: str = ""
    preempted_at: float | None = None
    registers_as: str = ""
    is_unplaced: bool = False
    place: int | None = None


class LauncherError(Exception):
    """The launcher could not do it, or not all of it: one line for operators. `observe` tells what runs."""


class PoolsUnknown(LauncherError):
    """The launcher cannot tell now which replicas of some pools run; nothing follows from that, and others go on.

    `unknown` says why, in a line for each, by model and pool; `seen` is what runs of all others.
    """

    def __init__(self, unknown: Mapping[tuple[str, str], str], seen: Sequence[LaunchedReplica]) -> None:
        super().__init__("; ".join(dict.fromkeys(unknown.values())))
        self.unknown = unknown
        self.seen = seen


class Launcher(Protocol):
    """Starts and stops replicas. Every call may take long or hang: callers bound it, and call again after a failure."""

    async def start(self, orders: Sequence[ReplicaOrder]) -> None:
        """Start replicas and return without waiting for them; an id that was started before is not started again.

        Raises:
            LauncherError: Some or all could not be started.
        """
        ...

    async def observe(self) -> Sequence[LaunchedReplica]:
        """All replicas of this launcher that exist, whoever has started them, with those that failed.

        Raises:
            LauncherError: It cannot be said now; nothing follows from that.
            PoolsUnknown: It can be said of some pools alone.
        """
        ...

    async def stop(self, ids: Sequence[str], grace_seconds: float) -> None:
        """Tell replicas to end within the grace, and return without waiting. Ids that are unknown are no error.

        Raises:
            LauncherError: Some or all could not be told.
        """
        ...
