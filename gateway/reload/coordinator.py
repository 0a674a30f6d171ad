"""The supervisor's part in a reload: read the file, have every process prepare it, and let all take it, or none.

All is done in one event loop, in a thread of its own: the supervisor's main thread belongs to the server.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from gateway.config.errors import ConfigError
from gateway.config.settings import Config
from gateway.reload.messages import (
    Ask,
    ConnectionEnded,
    Current,
    GiveUp,
    Hello,
    Message,
    Outcome,
    Prepare,
    Prepared,
    ProcessResult,
    Role,
    Settled,
    Take,
    Taken,
    Told,
    Trigger,
    digest_of,
    receive,
    send,
)
from gateway.reload.participant import CannotPrepare, restart_signal
from gateway.reload.plan import Fate, Plan, plan
from gateway.reload.watched_file import WatchedFile

log = logging.getLogger(__name__)

#: Seconds between two looks at the file.
LOOK_SECONDS: Final = 1.0
#: Seconds that all processes have to prepare a configuration: to load tokenizers, and to reach new replicas.
PREPARE_SECONDS: Final = 60.0
#: Seconds for all of them to say that they have taken it, which is a matter of milliseconds.
TAKE_SECONDS: Final = 10.0
_MOST_NAMED: Final = 20
_TRIGGERS: Final[dict[Trigger, str]] = {
    "signal": "SIGHUP",
    "file": "a changed file",
    "admin": "the admin API",
    "command": "penstock config reload",
}


class _Peer:
    """One connected process."""

    def __init__(self, hello: Hello, role: Role, writer: asyncio.StreamWriter) -> None:
        self.role: Role = role
        self.pid = hello.pid
        self.digest = hello.digest
        self.writer = writer
        #: The configuration that all of its requests have begun with.
        self.settled = ""
        #: The answer that is waited for; None of a process that has gone.
        self.prepared: asyncio.Future[Prepared | None] | None = None
        self.taken: asyncio.Future[None] | None = None

    def __str__(self) -> str:
        return f"{self.role} {self.pid}"


class OwnParts(Protocol):
    """What the supervisor itself runs by the configuration. A `Participant`, but that it is told when to settle."""

    async def prepare(self, config: Config) -> None:
        """Run what a configuration needs, beside what runs. Raises CannotPrepare, and then nothing is left of it."""
        ...

    def take(self) -> None:
        """Note that what was prepared is in use; what was in use before runs on."""
        ...

    async def abandon(self) -> None:
        """Drop what was prepared."""
        ...

    def settle(self) -> None:
        """Drop what only earlier configurations need."""
        ...


class Coordinator:
    """Holds the configuration in use, and replaces it."""

    def __init__(
        self,
        config: Config,
        watched: WatchedFile,
        check: Callable[[Path], Config],
        own: OwnParts,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`watched` is the file, from before `config` was read out of it.

        `check` reads the file and checks everything in it; it raises ConfigError. `own` is what the supervisor itself
        runs by the configuration. `clock` counts seconds since 1970.
        """
        self.config = config
        self._digest = digest_of(config)
        self._file = watched.file
        self._check = check
        self._own = own
        self._clock = clock
        self._watched = watched
        self._peers: set[_Peer] = set()
        self._numbers = 0
        self._reloading = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.outcome = Outcome("started", None, clock(), self._digest)

    async def listen(self, socket: Path) -> asyncio.Server:
        """Let the supervisor's processes connect. Raises OSError."""
        server = await asyncio.start_unix_server(self._meet, str(socket))
        # Whoever may connect gets the configuration.
        os.chmod(socket, 0o600)
        return server

    async def serve(self, server: asyncio.Server) -> None:
        """Answer them, and look at the file, until cancelled."""
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                if self._watched.look():
                    await self.reload("file")
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def reload(self, trigger: Trigger) -> Outcome:
        """Read the file and have all processes take it. One reload comes after the other."""
        async with self._reloading:
            self._watched.read()
            try:
                outcome = await self._reload(trigger)
            except ConfigError as error:
                outcome = self._refused(trigger, str(error))
            except Exception as error:
                log.exception("reading the configuration again")
                outcome = self._refused(trigger, f"it failed unexpectedly: {type(error).__name__}")
            self.outcome = outcome
            _note(outcome)
            for peer in self._peers:
                send(peer.writer, Told(outcome))
                if peer.digest != self._digest:
                    self._catch_up(peer)
        self._settle()
        return outcome

    async def _reload(self, trigger: Trigger) -> Outcome:
        config = await asyncio.to_thread(self._check, self._file)
        if config == self.config:
            return Outcome("unchanged", trigger, self._clock(), self._digest)
        found = plan(self.config, config)
        if found.restart:
            paths = _joined([str(change) for change in found.restart])
            return self._refused(trigger, f"{self._file}: it needs a restart: {paths}", found)
        try:
            await self._own.prepare(config)
        except CannotPrepare as error:
            return self._refused(trigger, f"{self._file}: {error}", found)
        peers, results = await self._prepare_all(config)
        problems = [f"{result.role} {result.pid}: {result.problem}" for result in results if result.problem]
        if problems:
            await self._own.abandon()
            # The same of every worker, as a rule.
            return self._refused(trigger, f"{self._file}: {problems[0]}", found, results)
        self.config, self._digest = config, digest_of(config)
        self._own.take()
        await self._take_all(peers)
        return Outcome(
            "taken",
            trigger,
            self._clock(),
            self._digest,
            changes=tuple(map(str, found.changes)),
            rebuilt=tuple(found.named(Fate.REBUILT)),
            processes=tuple(results),
        )

    def _refused(
        self, trigger: Trigger, problem: str, found: Plan | None = None, results: Sequence[ProcessResult] = ()
    ) -> Outcome:
        return Outcome(
            "refused",
            trigger,
            self._clock(),
            self._digest,
            problem,
            changes=() if found is None else tuple(map(str, found.changes)),
            restart=() if found is None else tuple(map(str, found.restart)),
            rebuilt=() if found is None else tuple(found.named(Fate.REBUILT)),
            processes=tuple(results),
        )

    async def _prepare_all(self, config: Config) -> tuple[list[_Peer], list[ProcessResult]]:
        """Have every process prepare, and return those; all give up if one of them cannot.

        One that ends meanwhile does not count: it begins again with the configuration that is in use then.
        """
        self._numbers += 1
        peers = sorted(self._peers, key=lambda peer: (peer.role, peer.pid))
        for peer in peers:
            peer.prepared = asyncio.get_running_loop().create_future()
            send(peer.writer, Prepare(self._numbers, config))
        waited = [peer.prepared for peer in peers if peer.prepared is not None]
        if waited:
            await asyncio.wait(waited, timeout=PREPARE_SECONDS)
        results = []
        for peer in peers:
            answer, peer.prepared = peer.prepared, None
            assert answer is not None
            if not answer.done():
                answer.cancel()
                late = f"it was not ready within {PREPARE_SECONDS:.0f} s"
                results.append(ProcessResult(peer.role, peer.pid, late, PREPARE_SECONDS))
            elif (said := answer.result()) is not None:
                results.append(ProcessResult(peer.role, peer.pid, said.problem, said.seconds))
        if any(result.problem for result in results):
            for peer in peers:
                send(peer.writer, GiveUp(self._numbers))
        return peers, results

    async def _take_all(self, peers: Sequence[_Peer]) -> None:
        peers = [peer for peer in peers if peer in self._peers]
        for peer in peers:
            peer.taken = asyncio.get_running_loop().create_future()
            send(peer.writer, Take(self._numbers))
        waited = [peer.taken for peer in peers if peer.taken is not None]
        if waited:
            await asyncio.wait(waited, timeout=TAKE_SECONDS)
        for peer in peers:
            if peer.taken is not None and peer.taken.done():
                peer.digest = self._digest
            peer.taken = None

    def _catch_up(self, peer: _Peer) -> None:
        """Bring a process that has begun with an older configuration to the one in use."""

        async def bring() -> None:
            await self._bring(peer)
            # Processes that have gone or settled meanwhile had to wait for it.
            self._settle()

        task = asyncio.create_task(bring())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bring(self, peer: _Peer) -> None:
        async with self._reloading:
            if peer not in self._peers or peer.digest == self._digest:
                return
            self._numbers += 1
            answer = peer.prepared = asyncio.get_running_loop().create_future()
            send(peer.writer, Prepare(self._numbers, self.config))
            await asyncio.wait([answer], timeout=PREPARE_SECONDS)
            peer.prepared = None
            said = answer.result() if answer.done() else Prepared(self._numbers, "it was not ready in time", 0.0)
            if said is None:
                return
            if said.problem:
                # The others have the configuration: this one begins anew, with it.
                log.error("%s cannot take the configuration in use and is ended: %s", peer, said.problem)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(peer.pid, restart_signal(peer.role))
                return
            send(peer.writer, Take(self._numbers))
            peer.digest = self._digest

    def _settle(self) -> None:
        """Drop what only earlier configurations need, once no process has requests of one."""
        if not self._reloading.locked() and all(peer.settled == self._digest for peer in self._peers):
            self._own.settle()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk with one process until it has gone."""
        peer: _Peer | None = None
        try:
            hello = await receive(reader)
            if not isinstance(hello, Hello):
                return
            if hello.role is None:
                send(writer, Current(self.config, str(self._file)))
                while isinstance(asked := await receive(reader), Ask):
                    send(writer, Told(await self.reload(asked.trigger), answers=True))
                return
            peer = _Peer(hello, hello.role, writer)
            self._peers.add(peer)
            send(writer, Told(self.outcome))
            if peer.digest != self._digest:
                self._catch_up(peer)
            while True:
                self._hear(peer, await receive(reader))
        except ConnectionEnded:
            pass
        finally:
            writer.close()
            if peer is not None:
                self._peers.discard(peer)
                self._settle()
                for answer in (peer.prepared, peer.taken):
                    if answer is not None and not answer.done():
                        answer.set_result(None)

    def _hear(self, peer: _Peer, message: Message) -> None:
        if isinstance(message, Prepared):
            if peer.prepared is not None and not peer.prepared.done() and message.number == self._numbers:
                peer.prepared.set_result(message)
        elif isinstance(message, Settled):
            peer.settled = message.digest
            self._settle()
        elif isinstance(message, Taken) and peer.taken is not None and not peer.taken.done():
            peer.taken.set_result(None)


def _note(outcome: Outcome) -> None:
    """Log what became of a reload."""
    trigger = "" if outcome.trigger is None else _TRIGGERS[outcome.trigger]
    if outcome.result == "unchanged":
        log.info("configuration %s stays, after %s: the file says the same", outcome.digest, trigger)
    elif outcome.result == "refused":
        log.error("configuration refused, after %s: %s; %s goes on serving", trigger, outcome.problem, outcome.digest)
    else:
        rebuilt = f"; rebuilt: {', '.join(outcome.rebuilt)}" if outcome.rebuilt else ""
        seconds = max((one.seconds for one in outcome.processes), default=0.0)
        log.info(
            "configuration %s taken by %d processes, after %s: %s%s; it took them %.2f s to prepare",
            *(outcome.digest, len(outcome.processes), trigger, _joined(outcome.changes), rebuilt, seconds),
        )


def _joined(lines: Sequence[str]) -> str:
    more = f"; and {len(lines) - _MOST_NAMED} more" if len(lines) > _MOST_NAMED else ""
    return "; ".join(lines[:_MOST_NAMED]) + more
