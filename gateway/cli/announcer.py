"""A thread that repeats in the store what a replica process says of itself, whatever the others are busy with."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gateway.fleets.discovery.registrations import HEARTBEAT_SECONDS, Registration, deregister, register
from gateway.store.connections import Login
from gateway.store.store_client import Store
from protos.errors import StoreUnavailable
from protos.launch_step import LaunchStep

log = logging.getLogger(__name__)

#: Seconds; a longer call would delay a heartbeat.
_TIMEOUT_SECONDS: Final = 0.5
#: Seconds after which replicas that nobody attends to are not spoken of any more: their event loop stands still.
ATTENDED_SECONDS: Final = 1.5
#: Seconds that count at most between two looks: a process that stood still has not waited for anybody meanwhile.
_LOOK_SECONDS: Final = 2.0
#: Seconds that taking the registrations back may take at the end.
_END_SECONDS: Final = 2.0


def _end_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class Announcer:
    """Says and repeats registrations. During an outage of the store it waits.

    A process that a launcher has started is an orphan once it can be asked by no gateway and ended by no controller:
    for `orphan_seconds` the store has not answered, and no gateway has had a session. It is ended then.
    """

    def __init__(
        self,
        store_url: str,
        orphan_seconds: float | None = None,
        *,
        login: Login | None = None,
        end: Callable[[], None] = _end_process,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`orphan_seconds` None: it is not a launcher's. `login` gives the login of each new connection to the store.

        `end` ends the process as SIGTERM does.
        """
        self._store_url = store_url
        self._login = login
        self._orphan_seconds = orphan_seconds
        self._end = end
        self._clock = clock
        self._replicas: Sequence[Registration] = ()
        #: All that have been said, the last word of each: an address may become known late.
        self._said: dict[str, Registration] = {}
        self._attended: float | None = None
        #: Whether the store has answered or a gateway has had a session since the last look, and how long none has.
        self._needed = False
        self._alone_seconds = 0.0
        self._looked = clock()
        self._state = ""
        self._wake: Callable[[], None] = lambda: None
        self._stopping = False

    def say(self, replicas: Sequence[Registration]) -> None:
        """Register these from now on; any thread may call it."""
        self._replicas = replicas
        self._wake()

    def attend(self, sessions: int) -> None:
        """Note that the replicas are attended to, with so many sessions; any thread may call it."""
        self._attended = self._clock()
        if sessions:
            self._needed = True

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Announce until the end of the block, then take the registrations back."""
        thread = threading.Thread(target=lambda: asyncio.run(self.run()), name="announcer", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.stop()
            thread.join(_END_SECONDS)

    def stop(self) -> None:
        """Let `run` end; any thread may call it."""
        self._stopping = True
        self._wake()

    async def run(self) -> None:
        """Announce until stopped, then take the registrations back; run it once."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        store = Store(self._store_url, timeout=_TIMEOUT_SECONDS, login=self._login)

        def wake() -> None:
            # The loop is closed once this has ended.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(woken.set)

        self._wake = wake
        try:
            while not self._stopping:
                woken.clear()
                await self._announce(store)
                self._look_after_orphan()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await woken.wait()
            await asyncio.gather(*(deregister(store, replica) for replica in self._said.values()))
        except StoreUnavailable as error:
            # The records expire by themselves.
            log.warning("cannot deregister: %s", error.__cause__ or error)
        finally:
            await store.aclose()

    async def _announce(self, store: Store) -> None:
        replicas = self._replicas
        if self._stands_still(replicas):
            self._note("not registered: the replica does nothing any more", logging.ERROR)
            return
        self._said |= {replica.key: replica for replica in replicas}
        try:
            done = await asyncio.gather(*(register(store, replica) for replica in replicas))
            if not replicas:
                await store.now()
        except StoreUnavailable as error:
            self._note(f"cannot register: {error.__cause__ or error}", logging.WARNING)
            return
        self._needed = True
        taken_over = [replica.address for replica, is_ours in zip(replicas, done, strict=True) if not is_ours]
        if taken_over:
            self._note(f"another replica that began later has registered as {', '.join(taken_over)}", logging.ERROR)
        elif replicas:
            self._note(f"registered as {', '.join(replica.address for replica in replicas)}", logging.INFO)

    def _stands_still(self, replicas: Sequence[Registration]) -> bool:
        """Whether replicas that should be ready have not been attended to for long."""
        if self._attended is None or not any(replica.step is LaunchStep.READY for replica in replicas):
            return False
        return self._clock() - self._attended > ATTENDED_SECONDS

    def _look_after_orphan(self) -> None:
        now = self._clock()
        passed, self._looked = min(now - self._looked, _LOOK_SECONDS), now
        needed, self._needed = self._needed, False
        self._alone_seconds = 0.0 if needed else self._alone_seconds + passed
        if self._orphan_seconds is None or self._alone_seconds < self._orphan_seconds:
            return
        log.warning(
            "ending: for %g s the store has not answered, and no gateway has been connected", self._orphan_seconds
        )
        self._orphan_seconds = None
        self._end()

    def _note(self, state: str, level: int) -> None:
        if state != self._state:
            self._state = state
            log.log(level, "%s", state)
