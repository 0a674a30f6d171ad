"""A launcher of processes of this machine, which outlive the controller that starts them."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from protos.launch_step import LaunchStep
from replicas.launchers.gpu_share import GpuShare
from replicas.launchers.held_process import Holder, start_held
from replicas.launchers.launch_folder import RECORD_VARIABLE, LaunchFolder, LaunchRecord
from replicas.launchers.launcher import ID, LaunchedReplica, LauncherError, ReplicaOrder
from replicas.launchers.standby_slots import StandbySlots, gpu_environment

#: Seconds beyond the grace that a process has to end.
KILL_MARGIN_SECONDS: Final = 5.0
#: Seconds for which an id that ran here is remembered after its end: a late `start` must not start it again.
GONE_SECONDS: Final = 3600.0


class LocalLauncher:
    """Starts a process for each order. Any number of launchers, also of several controllers, can share a folder.

    A controller may be killed at any time: a new launcher of the folder sees what runs, and ends what was told to end.
    What was told is killed by the next `observe` or `stop` after its grace, whoever calls that.
    """

    def __init__(
        self,
        folder: Path,
        command_of: Callable[[ReplicaOrder, str], Sequence[str]],
        address_of: Callable[[str], str],
        environment: Mapping[str, str],
        gpus: Sequence[int] | None = None,
        *,
        shares: Mapping[tuple[str, str], GpuShare] = MappingProxyType({}),
        standby: StandbySlots | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder` is absolute, and is created. The functions raise LauncherError, OSError or RuntimeError.

        Args:
            folder: Where records, locks and logs are.
            command_of: Gives the command line of an order's replica that listens on an address.
            address_of: Gives the address of a replica by its id: `unix:/PATH`, in a folder that exists.
            environment: The environment of the processes.
            gpus: Indexes of the GPUs that can be given, as `nvidia-smi` counts them; None: none are given.
            shares: GPUs of these that only replicas of one pool are given, by model and pool.
            standby: Processes in wait, one of which is taken where there is one.
            clock: This machine's monotonic clock, which all its processes share.
        """
        self._folder = LaunchFolder(folder)
        self._command_of = command_of
        self._address_of = address_of
        self._environment = environment
        self._gpus = gpus
        self._shares = shares
        self._standby = standby
        self._clock = clock
        #: Process ids of this process's children, by the id of their replica.
        self._children: dict[str, int] = {}
        #: When processes without a record that were told to end are killed, by the id of their replica.
        self._unrecorded: dict[str, float] = {}

    def join(self) -> None:
        """Say that this process looks after what the folder's launchers have started.

        Raises:
            LauncherError: The folder cannot be used.
        """
        with _explained():
            self._folder.join()

    def leave(self) -> bool:
        """Take `join` back; whether nobody else looks after it."""
        return self._folder.leave()

    async def start(self, orders: Sequence[ReplicaOrder]) -> None:
        await asyncio.to_thread(self._start_all, orders)

    async def observe(self) -> Sequence[LaunchedReplica]:
        return await asyncio.to_thread(self._observe)

    async def stop(self, ids: Sequence[str], grace_seconds: float) -> None:
        await asyncio.to_thread(self._stop, ids, grace_seconds)

    async def end_slots(self) -> None:
        """End the processes in wait, and keep none from now on: nothing more is to be started.

        Raises:
            LauncherError: Their folder cannot be read.
        """
        standby, self._standby = self._standby, None
        if standby is not None:
            await asyncio.to_thread(self._end, standby)

    def _end(self, standby: StandbySlots) -> None:
        with _explained(), self._folder.exclusive():
            standby.end()

    def _start_all(self, orders: Sequence[ReplicaOrder]) -> None:
        problems = []
        with _explained(), self._folder.exclusive():
            records = self._folder.records()
            for order in orders:
                try:
                    record = self._start(order, records)
                except (LauncherError, OSError, RuntimeError) as error:
                    problems.append(f"{order.id[:80]}: {error}")
                else:
                    records[order.id] = record
        if problems:
            raise LauncherError("; ".join(problems))

    def _start(self, order: ReplicaOrder, records: Mapping[str, LaunchRecord]) -> LaunchRecord:
        """Start one replica, unless that was done before. Raises LauncherError, and what the given functions raise."""
        if not ID.fullmatch(order.id):
            raise LauncherError("an id has 1 to 63 of a-z, 0-9 and -")
        known = records.get(order.id)
        if known is not None:
            holder = self._holder(known)
            # The starter may have been killed between its record and the process.
            if holder.held or holder.pid or known.kill_at is not None:
                return known
        address = self._address_of(order.id)
        gpus = self._choose_gpus(order, address, records.values())
        record = LaunchRecord(order=order, address=address, since=time.time(), gpus=gpus)
        self._folder.write(record)
        environment = {**self._environment, RECORD_VARIABLE: msgspec.json.encode(record).decode()}
        if self._gpus is not None:
            environment |= gpu_environment(gpus)
        try:
            _remove_socket(address)
            command = self._command(order, address, gpus)
            pid = self._run(record, command, environment)
        except BaseException:
            self._folder.remove(record)
            raise
        if pid is not None:
            self._children[order.id] = pid
        return record

    def _run(self, record: LaunchRecord, command: Sequence[str], environment: Mapping[str, str]) -> int | None:
        """Let a process in wait become the replica, or start one; return its id if it is a child. Raises OSError."""
        id_, gpus = record.order.id, record.gpus
        paths = (self._folder.lock_path(id_), self._folder.log_path(id_))
        if self._standby is not None:
            taken, pid = self._standby.take(command, *paths, self._folder.slot_path(id_), gpus)
            if taken:
                return pid
            if gpus:
                self._standby.free(gpus)
        return start_held(command, environment, *paths)

    def _choose_gpus(self, order: ReplicaOrder, address: str, records: Collection[LaunchRecord]) -> Sequence[int]:
        """Return GPUs that no replica has: those of a process in wait that fits, else those that none has, at first."""
        if self._gpus is None:
            return ()
        held: Collection[int] = ()
        share = self._shares.get((order.model, order.pool))
        # Groups become whole one after the other; on its GPU one in wait is taken all the same.
        if self._standby is not None and share is None:
            kept = self._kept
            offered = self._standby.offered(self._command_of(order, address), order.shape.gpus, kept)
            if offered is not None:
                return offered
            held = self._standby.gpus
        may = share.gpus if share is not None else [index for index in self._gpus if index not in self._kept]
        free = [index for index in self._unused(records) if index in may]
        if len(free) < order.shape.gpus:
            raise LauncherError(f"it needs {order.shape.gpus} GPUs, and {len(free)} of {len(may)} are free")
        return sorted(free, key=lambda index: index in held)[: order.shape.gpus]

    def _command(self, order: ReplicaOrder, address: str, gpus: Sequence[int]) -> Sequence[str]:
        """The command line of an order's replica on its GPUs. Raises what the given functions raise."""
        command, share = self._command_of(order, address), self._shares.get((order.model, order.pool))
        return command if share is None else [*command, *share.options(gpus)]

    @property
    def _kept(self) -> set[int]:
        """The GPUs that only replicas of one pool are given."""
        return {index for share in self._shares.values() for index in share.gpus}

    def _unused(self, records: Collection[LaunchRecord]) -> list[int]:
        """The GPUs that no replica has."""
        used = {index for record in records if record.gpus and self._holder(record).held for index in record.gpus}
        return [index for index in self._gpus or () if index not in used]

    def _observe(self) -> list[LaunchedReplica]:
        with _explained(), self._folder.exclusive():
            records = self._folder.records()
            seen = [self._look(record) for record in records.values()]
            self._end_unrecorded(records)
            if self._standby is not None:
                self._standby.fill(self._unused(records.values()))
            return [replica for replica in seen if replica is not None]

    def _stop(self, ids: Sequence[str], grace_seconds: float) -> None:
        problems = []
        with _explained(), self._folder.exclusive():
            records = self._folder.records()
            for id_ in set(ids) - records.keys():
                if ID.fullmatch(id_) and Holder(self._folder.lock_path(id_)).tell_held():
                    self._unrecorded.setdefault(id_, self._clock() + grace_seconds + KILL_MARGIN_SECONDS)
            self._end_unrecorded(records)
            for id_, record in records.items():
                try:
                    if id_ in ids and record.gone_at is None:
                        kill_at = self._clock() + grace_seconds + KILL_MARGIN_SECONDS
                        kill_at = kill_at if record.kill_at is None else min(kill_at, record.kill_at)
                        told = msgspec.structs.replace(record, kill_at=kill_at)
                        self._folder.write(told)
                        self._look(told)
                    elif record.kill_at is not None:
                        self._look(record)
                except OSError as error:
                    problems.append(f"{id_}: {error}")
        if problems:
            raise LauncherError("; ".join(problems))

    def _end_unrecorded(self, records: Collection[str]) -> None:
        """Kill those processes whose record was lost and that have not ended as they were told. Raises OSError."""
        for id_, kill_at in list(self._unrecorded.items()):
            lock = self._folder.lock_path(id_)
            holder = Holder(lock)
            if holder.held and id_ not in records:
                if self._clock() >= kill_at:
                    holder.kill()
                continue
            del self._unrecorded[id_]
            if id_ not in records:
                lock.unlink(missing_ok=True)

    def _look(self, record: LaunchRecord) -> LaunchedReplica | None:
        """See how a replica is, and do what is due; None: it is gone. Raises OSError."""
        id_, now = record.order.id, self._clock()
        status = self._reaped(id_)
        if record.gone_at is not None:
            # A clock that is behind has begun anew, with the machine.
            if not record.gone_at <= now < record.gone_at + GONE_SECONDS:
                self._folder.remove(record)
            return None
        holder = self._holder(record)
        if holder.left_behind:
            holder.kill()
        if holder.held:
            if self._standby is not None and (mark := self._folder.slot_path(id_)).exists():
                self._standby.resume(self._command(record.order, record.address, record.gpus), mark)
            return _seen(self._enforced(record, holder, now), LaunchStep.PROCESS)
        if record.kill_at is not None:
            _remove_socket(record.address)
            self._folder.write(msgspec.structs.replace(record, gone_at=now))
            return None
        if not record.ended and id_ in self._children:
            # A process gives its lock up a moment before its status can be asked for.
            return _seen(record, LaunchStep.PROCESS)
        if not record.ended:
            record = msgspec.structs.replace(record, ended=self._ending(id_, holder, status))
            self._folder.write(record)
        return _seen(record, LaunchStep.FAILED)

    def _enforced(self, record: LaunchRecord, holder: Holder, now: float) -> LaunchRecord:
        """Tell or kill the process of a replica that shall end. Raises OSError."""
        self._folder.bound_log(record.order.id)
        if record.kill_at is not None and not record.told and holder.tell():
            record = msgspec.structs.replace(record, told=True)
            self._folder.write(record)
        if record.kill_at is not None and now >= record.kill_at:
            holder.kill()
        return record

    def _ending(self, id_: str, holder: Holder, status: int | None) -> str:
        if not holder.pid:
            return "its start was broken off before its process began"
        how = (
            "ended (its status went to a controller that is gone)" if status is None else f"ended with status {status}"
        )
        line = self._folder.last_line(id_)
        return f"{how}: {line} (log: {self._folder.log_path(id_)})" if line else f"{how}, without a line in its log"

    def _reaped(self, id_: str) -> int | None:
        """The exit status of a child that has ended; a signal's number is negative."""
        pid = self._children.get(id_)
        if pid is None:
            return None
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            ended, status = pid, None
        if not ended:
            return None
        del self._children[id_]
        return None if status is None else os.waitstatus_to_exitcode(status)

    def _holder(self, record: LaunchRecord) -> Holder:
        return Holder(self._folder.lock_path(record.order.id))


def _seen(record: LaunchRecord, step: LaunchStep) -> LaunchedReplica:
    order = record.order
    return LaunchedReplica(
        id=order.id,
        model=order.model,
        pool=order.pool,
        step=step if record.kill_at is None else LaunchStep.STOPPING,
        since=record.since,
        address=record.address,
        spot=order.spot,
        problem=record.ended,
    )


def _remove_socket(address: str) -> None:
    if address.startswith("unix:"):
        Path(address.removeprefix("unix:")).unlink(missing_ok=True)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Raise LauncherError in place of OSError."""
    try:
        yield
    except OSError as error:
        raise LauncherError(str(error)) from error
