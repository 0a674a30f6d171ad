"""Processes in wait on this machine, from which a launcher takes one where it would start another.

A slot is a process with `penstock replica --standby`, and its files in a folder: `NAME.lock`, which it holds for as
long as it lives (held_process.py), and `NAME.log`. To take it is to rename both to those of the replica that it
becomes, so that whoever looks sees that replica's process. The replica's `ID.slot` names the slot's socket until the
order has been given, for a launcher that is killed in between.

Where GPUs are given, a slot has its own from its beginning on, and its name tells them: `DIGEST-0.1-TOKEN`. It waits on
GPUs that no replica has, and is ended where one needs them otherwise.
"""

import contextlib
import hashlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from replicas.fast_start.standby import OrderRefused, give_order, is_waiting
from replicas.launchers.held_process import Holder, start_held

log = logging.getLogger(__name__)

#: Seconds that a slot has to take an order; it does so in milliseconds, or it is not well.
_ORDER_SECONDS: Final = 2.0
#: Seconds without a launcher's look after which a slot ends: nobody would take it any more.
IDLE_SECONDS: Final = 120.0
#: Seconds that a slot's GPUs are waited for after it was killed; the driver takes a moment to free their memory.
_FREED_SECONDS: Final = 3.0
#: Slots that begin at one time: each costs half a second of a core, which replicas that begin may need more.
AT_ONCE: Final = 2


class SlotKind(NamedTuple):
    """What a slot can become: replicas whose command line begins with `base`, on so many GPUs (0: none are given)."""

    base: Sequence[str]
    gpus: int = 0


def gpu_environment(gpus: Sequence[int]) -> Mapping[str, str]:
    """The variables that give GPUs to a process. Without the order CUDA counts from the fastest GPU on."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}


class StandbySlots:
    """Slots in a folder. Any number of launchers can share it; their callers keep each other out."""

    def __init__(
        self,
        folder: Path,
        kinds: Sequence[SlotKind],
        count: int,
        environment: Mapping[str, str],
        socket_of: Callable[[str], Path],
    ) -> None:
        """Keep `count` slots of each kind.

        Args:
            folder: Where locks and logs are; it is created.
            kinds: Their bases end with `--engine NAME`.
            count: How many slots of each shall wait.
            environment: The environment of the processes.
            socket_of: Gives the path of a slot's socket by its name, in a folder that exists.
        """
        self._folder = folder
        # A slot that was started otherwise, as by an earlier version, is not looked at, and so it ends.
        self._kinds = {_digest(kind, environment): kind for kind in kinds}
        self._count, self._environment, self._socket_of = count, environment, socket_of
        #: Process ids of this process's children, by the name of their slot.
        self._children: dict[str, int] = {}

    def fill(self, unused: Sequence[int] = ()) -> None:
        """Look at every slot, forget those that have ended, start what is missing, few at a time. Raises OSError.

        `unused` are the GPUs that no replica has.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        living = {digest: self._names(digest) for digest in self._kinds}
        for name in [name for names in living.values() for name in names if not set(_gpus(name)) <= set(unused)]:
            # A launcher was killed after it had given them to a replica.
            Holder(self._file(name, "lock")).kill()
        held = {index for names in living.values() for name in names for index in _gpus(name)}
        left = [index for index in unused if index not in held]
        for digest, kind in self._kinds.items():
            names = living[digest]
            for name in names:
                is_waiting(self._socket_of(name))  # so that it sees that it is looked at
            begun = sum(not self._socket_of(name).is_socket() for name in names)
            for _ in range(min(self._count - len(names), AT_ONCE - begun)):
                if len(left) < kind.gpus:
                    break
                gpus, left = left[: kind.gpus], left[kind.gpus :]
                self._start(digest, kind, gpus)

    def end(self) -> None:
        """End every slot. Raises OSError."""
        for digest in self._kinds:
            for name in self._names(digest):
                self._end(name)

    @property
    def gpus(self) -> list[int]:
        """The GPUs that slots have. Raises OSError."""
        return [index for digest in self._kinds for name in self._names(digest) for index in _gpus(name)]

    def offered(self, command: Sequence[str], gpus: int, but: Collection[int] = ()) -> Sequence[int] | None:
        """Return the GPUs of a slot that can become the replica of a command line on so many; None: there is none.

        None of them is in `but`.
        """
        found = (_gpus(name) for name, _ in self._waiting(command, gpus))
        return next((indexes for indexes in found if not set(indexes) & set(but)), None)

    def free(self, gpus: Sequence[int]) -> None:
        """End the slots that have any of these GPUs. Raises OSError."""
        names = [
            name for digest in self._kinds for name in self._names(digest) if not set(gpus).isdisjoint(_gpus(name))
        ]
        for name in names:
            self._end(name)
        until = time.monotonic() + _FREED_SECONDS
        while any(Holder(self._file(name, "lock")).held for name in names) and time.monotonic() < until:
            self._reap()
            time.sleep(0.01)

    def take(
        self, command: Sequence[str], lock: Path, output: Path, mark: Path, gpus: Sequence[int] = ()
    ) -> tuple[bool, int | None]:
        """Let a slot with these GPUs become the replica of a command line, whose files these are.

        Return whether one did, and its process id if it is a child of this process. Raises OSError.
        """
        for name, base in self._waiting(command, len(gpus)):
            fits = list(_gpus(name)) == list(gpus)
            if fits and self._give(name, self._socket_of(name), _options(base, command), (lock, output, mark)):
                return True, self._children.pop(name, None)
        return False, None

    def _waiting(self, command: Sequence[str], gpus: int) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the slots that can become the replica of a command line, with their bases."""
        for digest, kind in self._kinds.items():
            if kind.gpus == gpus and list(command[: len(kind.base)]) == list(kind.base):
                for name in self._names(digest):
                    if self._socket_of(name).is_socket():
                        yield name, kind.base

    def resume(self, command: Sequence[str], mark: Path) -> None:
        """Give an order that another launcher may have been about to give. Raises OSError."""
        path = Path(mark.read_text(encoding="utf-8"))
        bases = (list(kind.base) for kind in self._kinds.values())
        base = next((base for base in bases if list(command[: len(base)]) == base), None)
        if base is not None and path.is_socket():
            # Where it takes this order for a second one, it is that replica already.
            with contextlib.suppress(OSError, OrderRefused):
                give_order(path, _options(base, command), _ORDER_SECONDS)
        mark.unlink(missing_ok=True)

    def _give(self, name: str, path: Path, options: Sequence[str], files: tuple[Path, Path, Path]) -> bool:
        lock, output, mark = files
        mark.write_text(str(path), encoding="utf-8")
        self._file(name, "log").replace(output)
        self._file(name, "lock").replace(lock)
        try:
            give_order(path, options, _ORDER_SECONDS)
        except OrderRefused as error:
            # Started as any other it says the same in its log.
            log.warning("a process in wait does not become a replica: %s", error)
        except OSError as error:
            log.warning("a process in wait does not answer, and is ended: %s", error)
            Holder(lock).kill()
        else:
            mark.unlink()
            return True
        lock.replace(self._file(name, "lock"))
        output.replace(self._file(name, "log"))
        mark.unlink()
        return False

    def _start(self, digest: str, kind: SlotKind, gpus: Sequence[int]) -> None:
        given = [".".join(map(str, gpus))] if gpus else []
        name = "-".join([digest, *given, secrets.token_hex(4)])
        path = self._socket_of(name)
        command = [*kind.base, "--standby", str(path), "--standby-seconds", f"{IDLE_SECONDS:g}"]
        environment = {**self._environment, **(gpu_environment(gpus) if gpus else {})}
        pid = start_held(command, environment, self._file(name, "lock"), self._file(name, "log"))
        if pid is not None:
            self._children[name] = pid

    def _end(self, name: str) -> None:
        Holder(self._file(name, "lock")).kill()
        self._socket_of(name).unlink(missing_ok=True)

    def _names(self, digest: str) -> list[str]:
        """The slots that live; what is left of others is removed."""
        self._reap()
        living = []
        for lock in sorted(self._folder.glob(f"{digest}-*.lock")):
            name = lock.stem
            if Holder(lock).held:
                living.append(name)
            else:
                for path in (lock, self._file(name, "log"), self._socket_of(name)):
                    path.unlink(missing_ok=True)
        return living

    def _reap(self) -> None:
        for name, pid in list(self._children.items()):
            try:
                ended, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                ended = pid
            if ended:
                del self._children[name]

    def _file(self, name: str, kind: str) -> Path:
        return self._folder / f"{name}.{kind}"


def _options(base: Sequence[str], command: Sequence[str]) -> list[str]:
    """The options of `penstock replica` in a command line that begins with a base."""
    return [*base[-2:], *command[len(base) :]]


def _digest(kind: SlotKind, environment: Mapping[str, str]) -> str:
    variables = [f"{name}={value}" for name, value in sorted(environment.items())]
    text = "\0".join([*kind.base, *([str(kind.gpus)] if kind.gpus else []), *variables])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _gpus(name: str) -> Sequence[int]:
    """The GPUs that a slot's name tells."""
    _, *given, _ = name.split("-")
    return [int(index) for each in given for index in each.split(".")]
