"""Calls to one launcher: one at a time, each bounded. A launcher that hangs is left alone, and then tried again."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from gateway.scaling.intents import Intent
from replicas.launchers.launcher import LaunchedReplica, Launcher, LauncherError, PoolsUnknown, ReplicaOrder

log = logging.getLogger(__name__)

#: Seconds after which a call is abandoned, where nothing else bounds it.
CALL_SECONDS: Final = 40.0
#: Seconds for which a round waits for launchers; who answers later is heard in the next one.
PATIENCE_SECONDS: Final = 0.5


class LauncherCalls:
    """The calls of one controller. A look is taken only while nothing is being started or stopped."""

    def __init__(
        self,
        name: str,
        launcher: Launcher,
        clock: Callable[[], float] = time.monotonic,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        """`call_seconds` bound each call."""
        self.name = name
        self._launcher = launcher
        self._clock = clock
        self._call_seconds = call_seconds
        self._task: asyncio.Task[None] | None = None
        self._doing = ""
        self._since = 0.0
        self._seen: Sequence[LaunchedReplica] | None = None
        self._failed: dict[str, str] = {}
        #: Why the last look does not say what runs of some pools, by model and pool.
        self.unknown: Mapping[tuple[str, str], str] = {}
        #: Calls that failed.
        self.errors = 0

    def problem(self, place: tuple[str, str]) -> str:
        """Return the launcher's latest problem with a model's pool, as a sentence; empty where there is none."""
        return self.unreachable(place) or "; ".join(self._failed.values())

    def unreachable(self, place: tuple[str, str]) -> str:
        """Why nothing can be started in a pool now: it hangs, or does not say what runs; empty: it can."""
        if self._task is not None and not self._task.done():
            lasted = self._clock() - self._since
            if lasted > 4 * PATIENCE_SECONDS:
                return f"the launcher has not answered to {self._doing} for {lasted:.0f} s"
        return self._failed.get("observe", "") or self.unknown.get(place, "")

    @property
    def stop_failed(self) -> bool:
        """Whether the last stop failed."""
        return "stop" in self._failed

    def start_failure(self) -> str:
        """Why the last starts failed, once for each; empty: they did not."""
        return self._failed.pop("start", "") if self._is_free() else ""

    def forget(self) -> None:
        """Forget an answer that was not heard yet, as when another controller has acted since."""
        self._seen = None

    def look(self) -> None:
        """Begin to look at what runs, unless a call is under way, or the answer to the last look was not heard yet."""
        if self._is_free() and self._seen is None:
            self._begin("observe", self._observe())

    async def answered(self) -> Sequence[LaunchedReplica] | None:
        """Wait a moment; return what runs, once for each look, None where the launcher has not said so."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=PATIENCE_SECONDS)
        seen = self._seen if self._is_free() else None
        self._seen = None
        return seen

    def act(self, starts: Sequence[Intent], stops: Mapping[str, float], may_act: Callable[[], bool]) -> None:
        """Begin to start and stop; `may_act` is asked before each call. To be called after a look has answered."""
        if not stops:
            # What could not be stopped is gone by itself.
            self._failed.pop("stop", None)
        if (starts or stops) and self._is_free():
            self._begin("start" if starts else "stop", self._act(starts, stops, may_act))

    async def finished(self, seconds: float) -> None:
        """Wait until the call under way has ended, for so long at most."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=seconds)

    async def aclose(self) -> None:
        """Abandon what is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _is_free(self) -> bool:
        return self._task is None or self._task.done()

    def _begin(self, doing: str, work: Awaitable[None]) -> None:
        self._doing, self._since = doing, self._clock()
        self._task = asyncio.ensure_future(self._named(work))

    async def _named(self, work: Awaitable[None]) -> None:
        await work

    async def _observe(self) -> None:
        async def observe() -> None:
            unknown: Mapping[tuple[str, str], str] = {}
            try:
                self._seen = await self._launcher.observe()
            except PoolsUnknown as error:
                self._seen, unknown = error.seen, error.unknown
                self.errors += 1
            for (model, pool), why in unknown.items() - self.unknown.items():
                log.warning("the %s launcher: pool %s of %s is left as it is: %s", self.name, pool, model, why)
            self.unknown = unknown

        await self._bounded("observe", observe())

    async def _act(self, starts: Sequence[Intent], stops: Mapping[str, float], may_act: Callable[[], bool]) -> None:
        if starts and may_act():
            log.info("the %s launcher starts %s", self.name, ", ".join(intent.id for intent in starts))
            await self._bounded("start", self._launcher.start([order_of(intent) for intent in starts]))
        for grace in sorted(set(stops.values())):
            if may_act():
                self._doing = "stop"
                ids = [id_ for id_, seconds in stops.items() if seconds == grace]
                log.info("the %s launcher stops %s within %.0f s", self.name, ", ".join(ids), grace)
                await self._bounded("stop", self._launcher.stop(ids, grace))

    async def _bounded(self, doing: str, call: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._call_seconds):
                await call
        except TimeoutError:
            self._fails(doing, f"{doing}: no answer within {self._call_seconds:.0f} s")
        except LauncherError as error:
            self._fails(doing, f"{doing}: {error}")
        except Exception as error:
            log.exception("the %s launcher", self.name)
            self._fails(doing, f"{doing}: {type(error).__name__}: {error}")
        else:
            self._failed.pop(doing, None)

    def _fails(self, doing: str, problem: str) -> None:
        if self._failed.get(doing) != problem:
            log.warning("the %s launcher: %s", self.name, problem)
        self._failed[doing] = problem
        self.errors += 1


def order_of(intent: Intent) -> ReplicaOrder:
    """What a launcher is asked for."""
    return ReplicaOrder(
        id=intent.id,
        model=intent.model,
        pool=intent.pool,
        shape=intent.shape,
        role=intent.role,
        version=intent.version,
        spot=intent.spot,
    )
