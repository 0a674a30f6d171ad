"""Processes in wait on this machine, from which a launcher takes one where it would start another.

A slot is a process with `penstock replica --standby`, and its files in a folder: `NAME.lock`, which it holds for as
long as it lives (held_process.py), and `NAME.log`. To take it is to rename both to those of the replica that it
becomes, so that whoever looks sees that replica's process. The replica's `ID.slot` names the slot's socket until the
order has been given, for a launcher that is killed in between.
"""

import contextlib
import hashlib
import logging
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from replicas.fast_start.standby import OrderRefused, give_order, is_waiting
from replicas.launchers.held_process import Holder, start_held

log = logging.getLogger(__name__)

#: Seconds that a slot has to take an order; it does so in milliseconds, or it is not well.
_ORDER_SECONDS: Final = 2.0
#: Seconds without a launcher's look after which a slot ends: nobody would take it any more.
IDLE_SECONDS: Final = 120.0
#: Slots that begin at one time: each costs half a second of a core, which replicas that begin may need more.
AT_ONCE: Final = 2


class StandbySlots:
    """Slots in a folder. Any number of launchers can share it; their callers keep each other out."""

    def __init__(
        self,
        folder: Path,
        bases: Sequence[Sequence[str]],
        count: int,
        environment: Mapping[str, str],
        socket_of: Callable[[str], Path],
    ) -> None:
        """Keep `count` slots for each of `bases`.

        Args:
            folder: Where locks and logs are; it is created.
            bases: Beginnings of command lines, each up to and including `--engine NAME`. Replicas whose command line
                begins so can be taken from its slots.
            count: How many slots of each shall wait.
            environment: The environment of the processes.
            socket_of: Gives the path of a slot's socket by its name, in a folder that exists.
        """
        self._folder = folder
        # A slot that was started otherwise, as by an earlier version, is not looked at, and so it ends.
        self._bases = {_digest(base, environment): list(base) for base in bases}
        self._count, self._environment, self._socket_of = count, environment, socket_of
        #: Process ids of this process's children, by the name of their slot.
        self._children: dict[str, int] = {}

    def fill(self) -> None:
        """Look at every slot, forget those that have ended, start what is missing, few at a time. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for digest, base in self._bases.items():
            names = self._names(digest)
            for name in names:
                is_waiting(self._socket_of(name))  # so that it sees that it is looked at
            begun = sum(not self._socket_of(name).is_socket() for name in names)
            for _ in range(min(self._count - len(names), AT_ONCE - begun)):
                self._start(f"{digest}-{secrets.token_hex(4)}", base)

    def end(self) -> None:
        """End every slot. Raises OSError."""
        for digest in self._bases:
            for name in self._names(digest):
                Holder(self._file(name, "lock")).kill()
                self._socket_of(name).unlink(missing_ok=True)

    def take(self, command: Sequence[str], lock: Path, output: Path, mark: Path) -> tuple[bool, int | None]:
        """Let a slot become the replica of a command line, whose files these are.

        Return whether one did, and its process id if it is a child of this process. Raises OSError.
        """
        for digest, base in self._bases.items():
            if list(command[: len(base)]) != base:
                continue
            for name in self._names(digest):
                path = self._socket_of(name)
                if path.is_socket() and self._give(name, path, _options(base, command), (lock, output, mark)):
                    return True, self._children.pop(name, None)
        return False, None

    def resume(self, command: Sequence[str], mark: Path) -> None:
        """Give an order that another launcher may have been about to give. Raises OSError."""
        path = Path(mark.read_text(encoding="utf-8"))
        base = next((base for base in self._bases.values() if list(command[: len(base)]) == base), None)
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

    def _start(self, name: str, base: Sequence[str]) -> None:
        path = self._socket_of(name)
        command = [*base, "--standby", str(path), "--standby-seconds", f"{IDLE_SECONDS:g}"]
        pid = start_held(command, self._environment, self._file(name, "lock"), self._file(name, "log"))
        if pid is not None:
            self._children[name] = pid

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


def _digest(base: Sequence[str], environment: Mapping[str, str]) -> str:
    text = "\0".join([*base, *(f"{name}={value}" for name, value in sorted(environment.items()))])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]
