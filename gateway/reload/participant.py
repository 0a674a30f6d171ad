"""A process's part in a reload: it prepares a configuration when it is told to, and takes it with all others."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from typing import Final, Protocol

from gateway.config.settings import Config
from gateway.reload.messages import (
    ConnectionEnded,
    GiveUp,
    Hello,
    Message,
    Outcome,
    Prepare,
    Prepared,
    Role,
    Settled,
    Take,
    Taken,
    Told,
    digest_of,
    receive,
    send,
)

log = logging.getLogger(__name__)

#: Seconds until a lost connection to the supervisor is opened again.
_RECONNECT_SECONDS: Final = 1.0


def restart_signal(role: Role) -> signal.Signals:
    """The signal that ends a process which shall begin anew: a controller that may end in order stops its replicas."""
    return signal.SIGKILL if role == "controller" else signal.SIGTERM


class CannotPrepare(Exception):
    """A process cannot run a configuration; the text names the field and says why."""


class Participant(Protocol):
    """What takes configurations. Between `prepare` and `take` or `abandon` it serves on with the old one."""

    async def prepare(self, config: Config) -> None:
        """Make everything of a configuration ready, beside what serves. Nothing is left of it where it fails.

        Raises CannotPrepare.
        """
        ...

    def take(self) -> None:
        """Serve by what was prepared, from the next request on."""
        ...

    async def abandon(self) -> None:
        """Drop what was prepared."""
        ...

    async def settle(self) -> None:
        """Return when no request is under way that began with an earlier configuration."""
        ...


class ReloadLink:
    """The connection of one process to its supervisor; `run` it."""

    def __init__(
        self,
        socket: str,
        role: Role,
        config: Config,
        participant: Participant,
        told: Callable[[Outcome], None] = lambda outcome: None,
    ) -> None:
        """`config` is what the process has begun with; `told` hears of each reload's outcome."""
        self._socket = socket
        self._role: Role = role
        self._digest = digest_of(config)
        self._participant = participant
        self._told = told
        self._preparing: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        #: The number and the digest of what is ready to be taken.
        self._ready: tuple[int, str] | None = None

    async def run(self) -> None:
        """Follow the supervisor until cancelled."""
        try:
            while True:
                try:
                    await self._follow()
                except ConnectionEnded:
                    log.warning("the supervisor's socket is gone; a changed configuration is not heard of meanwhile")
                except Exception:
                    log.exception("following the supervisor")
                await self._give_up()
                await asyncio.sleep(_RECONNECT_SECONDS)
        finally:
            await self._give_up()
            if self._settling is not None:
                self._settling.cancel()
                await asyncio.gather(self._settling, return_exceptions=True)

    async def _follow(self) -> None:
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        except OSError as error:
            raise ConnectionEnded(str(error)) from error
        try:
            send(writer, Hello(self._role, os.getpid(), self._digest))
            self._settle(writer)
            while True:
                await self._hear(await receive(reader), writer)
        finally:
            writer.close()

    async def _hear(self, message: Message, writer: asyncio.StreamWriter) -> None:
        if isinstance(message, Prepare):
            await self._give_up()
            self._preparing = asyncio.create_task(self._prepare(message, writer))
        elif isinstance(message, Take):
            if self._ready is not None and self._ready[0] == message.number:
                self._digest, self._ready = self._ready[1], None
                try:
                    self._participant.take()
                except Exception:
                    # A part of it may serve: only a process that begins anew is sure to have what the others have.
                    log.exception("taking a configuration; the process ends")
                    signal.raise_signal(restart_signal(self._role))
                    return
                send(writer, Taken(message.number))
                self._settle(writer)
        elif isinstance(message, GiveUp):
            await self._give_up()
        elif isinstance(message, Told):
            self._told(message.outcome)

    def _settle(self, writer: asyncio.StreamWriter) -> None:
        """Say so when the configuration that is in use now is the only one."""
        if self._settling is not None:
            self._settling.cancel()

        async def settle(digest: str) -> None:
            await self._participant.settle()
            send(writer, Settled(digest))

        self._settling = asyncio.create_task(settle(self._digest))

    async def _prepare(self, message: Prepare, writer: asyncio.StreamWriter) -> None:
        started, problem = time.monotonic(), ""
        try:
            await self._participant.prepare(message.config)
        except CannotPrepare as error:
            problem = str(error)
        except Exception as error:
            log.exception("preparing a configuration")
            problem = f"it failed unexpectedly: {type(error).__name__}"
        else:
            self._ready = (message.number, digest_of(message.config))
        send(writer, Prepared(message.number, problem, time.monotonic() - started))

    async def _give_up(self) -> None:
        """Drop what is being prepared, or is ready."""
        preparing, self._preparing = self._preparing, None
        if preparing is not None:
            preparing.cancel()
            await asyncio.gather(preparing, return_exceptions=True)
        if self._ready is not None:
            self._ready = None
            await self._participant.abandon()
