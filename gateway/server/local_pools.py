"""The processes of the pools whose replicas `penstock serve` starts, through changes of the configuration.

A pool that is changed has other sockets, so that its old process and its new one run side by side while requests of an
earlier configuration are under way.
"""

import asyncio
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.config.secret_variables import ChildEnvironment, LateSecrets, secret_variables
from gateway.config.settings import Config
from gateway.fleets.local_replicas import replica_addresses, replica_command
from gateway.reload.participant import CannotPrepare
from gateway.server.child_process import START_SECONDS, ChildProcess, stop_together

#: Seconds for a process that nobody uses any more to end.
_UNUSED_SECONDS: Final = 5.0
#: Seconds beyond `listen.drain_seconds` for one that ends with the gateway.
_BEYOND_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.05

#: A process by its command line, whose sockets tell model, pool and settings.
_Key = tuple[str, ...]


class LocalPools:
    """All local pools. `start`, `watch` and `stop` are called in one thread: the kernel ends a child with the thread
    that started it. The rest is a reload's `Participant`, in another one.
    """

    def __init__(self, config: Config, late: LateSecrets) -> None:
        """`late` are told of the secrets that a configuration names."""
        self._config = config
        self._late = late
        self._lock = threading.Lock()
        #: What configurations need, the one in use first, with those that still have requests and those to come.
        self._in_use: Mapping[_Key, ChildProcess] = _pools_of(config, late)
        self._earlier: Mapping[_Key, ChildProcess] = {}
        self._prepared: Mapping[_Key, ChildProcess] = {}
        self._running: dict[_Key, ChildProcess] = {}

    def start(self, stopping: threading.Event) -> None:
        """Start the processes of all pools; return when they serve, or when it is `stopping`. Raises StartError."""
        deadline = time.monotonic() + START_SECONDS
        self._start_missing()
        for process in self._running.values():
            process.wait_until_ready(deadline, stopping)

    def watch(self) -> None:
        """Start what is needed and does not run, and end what nothing needs. Call it at regular times."""
        for process in self._running.values():
            process.watch()
        needed = self._start_missing()
        # Their sessions have ended.
        unused = [self._running.pop(key) for key in self._running.keys() - needed.keys()]
        stop_together(unused, time.monotonic() + _UNUSED_SECONDS)

    def stop(self) -> None:
        """End all processes; requests have until the drain's end."""
        deadline = time.monotonic() + self._config.listen.drain_seconds + _BEYOND_SECONDS
        stop_together(self._running.values(), deadline)

    async def prepare(self, config: Config) -> None:
        """Have the pools of another configuration run, too. Raises CannotPrepare."""
        self._late.note(config)
        with self._lock:
            before = dict(self._running)
            # What runs already is the same process.
            prepared = {key: before.get(key, process) for key, process in _pools_of(config, self._late).items()}
            self._prepared = prepared
        try:
            async with asyncio.timeout(START_SECONDS):
                while True:
                    waited = [one.name for key, one in prepared.items() if not self._serves(key)]
                    if not waited:
                        return
                    if ended := [one.name for key, one in prepared.items() if key not in before and one.ended]:
                        await self.abandon()
                        raise CannotPrepare(f"{ended[0]} ended at its start; the log has its line")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            await self.abandon()
            late = f"did not get ready within {START_SECONDS:.0f} s; the log has its lines"
            raise CannotPrepare(f"{', '.join(waited)} {late}") from None

    def take(self) -> None:
        """The prepared configuration is in use; what only the last one needs runs on until `settle`."""
        with self._lock:
            self._earlier = {**self._earlier, **self._in_use}
            self._in_use, self._prepared = self._prepared, {}

    async def abandon(self) -> None:
        """What was prepared is not needed."""
        with self._lock:
            self._prepared = {}

    def settle(self) -> None:
        """No request of an earlier configuration is under way any more."""
        with self._lock:
            self._earlier = {}

    def _serves(self, key: _Key) -> bool:
        process = self._running.get(key)
        return process is not None and process.ready

    def _start_missing(self) -> Mapping[_Key, ChildProcess]:
        with self._lock:
            needed = {**self._prepared, **self._earlier, **self._in_use}
        for key, process in needed.items():
            if key not in self._running:
                process.start()
                self._running[key] = process
        return needed


def _pools_of(config: Config, late: LateSecrets) -> dict[_Key, ChildProcess]:
    found = {}
    environment = ChildEnvironment(secret_variables(config), late)
    for m, model in enumerate(config.models):
        for p, pool in enumerate(model.pools):
            if pool.local_replicas:
                command = replica_command(config, m, p)
                sockets = [Path(address.removeprefix("unix:")) for address in replica_addresses(config, m, p)]
                name = f"replica pool {model.name}/{pool.name}"
                found[tuple(command)] = ChildProcess(name, command, sockets, environment=environment)
    return found
