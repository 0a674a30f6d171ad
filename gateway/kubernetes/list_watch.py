"""A list of objects that is kept up to date by watching what changes.

As in the API's concepts ("Efficient detection of changes"): a list gives a version, a watch goes on from it, and from
the version of the last change or bookmark once it has ended. Where the server no longer knows what has happened since
(410 Gone) everything is listed anew. While the server is away the last known list stays.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, TypeVar

from gateway.kubernetes.api_server import ApiServer, Change, decoded
from gateway.kubernetes.objects import Watchable
from gateway.kubernetes.resources import Resource
from protos.cluster_errors import ClusterHistoryGone, ClusterUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Watchable)

#: Seconds that one watch lasts at most. A server that hangs without closing the connection is left after so long, and
#: another one may answer then.
WATCH_SECONDS: Final = 120
_MARGIN_SECONDS: Final = 10.0
#: Seconds until a failed request is tried again: at first, and at most. Every worker spreads its own.
FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0
#: A watch that lasted for so many seconds was none that fails at once.
_LASTED_SECONDS: Final = 0.5
#: So many in a row that do are a problem.
_ENOUGH: Final = 3


class ListWatch(Generic[T]):
    """All objects of a kind in a namespace that labels select."""

    def __init__(
        self,
        server: ApiServer,
        resource: Resource[T],
        namespace: str | None,
        labels: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """`clock` counts seconds, `pause` waits for some, `spread` draws from a range."""
        self._server = server
        self._resource = resource
        self._namespace = namespace
        self._labels = labels
        self._clock, self._pause, self._spread = clock, pause, spread
        self._version = ""
        #: Requests that failed, and watches that were cut at once, one after the other.
        self._failures = self._cut_short = 0
        #: Seconds that the server wants to be left alone for.
        self._wait_at_least = 0.0
        #: The objects by name, as they were last known.
        self.objects: Mapping[str, T] = {}
        #: Why there is nothing newer, in one line; empty: it is up to date.
        self.problem = "not asked yet"

    async def list(self) -> bool:
        """List everything once; whether that was done. `problem` says why not."""
        try:
            found, self._version = await self._server.list(self._resource, self._namespace, self._labels)
        except ClusterUnavailable as error:
            self._fails(error)
            return False
        self.objects = {one.metadata.name: one for one in found}
        self._set_problem("")
        self._failures = 0
        return True

    async def follow(self, changed: Callable[[], None]) -> None:
        """Go on until cancelled; `changed` is called after each change of `objects` or of `problem`."""
        told: tuple[object, str] = (self.objects, self.problem)

        def tell() -> None:
            nonlocal told
            if self.objects is not told[0] or self.problem != told[1]:
                told = (self.objects, self.problem)
                changed()

        while True:
            try:
                if self._version or await self.list():
                    tell()
                    await self._watch(tell)
                tell()
            except Exception:
                # Any error: a list that nobody keeps up to date is worse than one that is made once more.
                log.exception("watching %s", self._resource.role_name)
                self._failures += 1
            if self._failures:
                longest = min(FIRST_DELAY * 2 ** min(self._failures - 1, 16), LONGEST_DELAY)
                await self._pause(max(self._spread(longest / 2, longest), self._wait_at_least))

    async def _watch(self, tell: Callable[[], None]) -> None:
        """Take over what changes, until the watch ends."""
        began, opened = self._clock(), False
        ended = ClusterUnavailable.of(f"watch {self._resource.role_name}: it ends at once, time after time")
        seconds = int(self._spread(WATCH_SECONDS / 2, WATCH_SECONDS))
        where = (self._resource, self._version, seconds, self._namespace, self._labels)
        try:
            async with asyncio.timeout(seconds + _MARGIN_SECONDS), self._server.watch(*where) as changes:
                opened = True
                if self._cut_short < _ENOUGH:
                    self._set_problem("")
                async for change in changes:
                    self._take(change)
                    tell()
        except ClusterHistoryGone as error:
            log.info("%s; it is listed anew", error)
            self._version = ""
        except ClusterUnavailable as error:
            ended = error
        except TimeoutError:
            ended, opened = ClusterUnavailable.of(f"watch {self._resource.role_name}: the API server hangs"), False
        if opened and self._clock() - began >= _LASTED_SECONDS:
            # A watch ends now and then, as when a server restarts: it is gone on with at once.
            self._failures = self._cut_short = 0
            return
        self._failures += 1
        self._cut_short = self._cut_short + 1 if opened else 0
        if self._version and (not opened or self._cut_short >= _ENOUGH):
            self._set_problem(str(ended))
            self._wait_at_least = ended.retry_after or 0.0

    def _take(self, change: Change) -> None:
        """Take over one change. Raises ClusterUnavailable."""
        if change.type == "BOOKMARK":
            # Of such an object only the version counts, and the rest may be none that there could be.
            self._version = decoded(change.object, Watchable).metadata.resource_version or self._version
        else:
            one = self._read(change)
            if one is None:
                return
            others = {name: other for name, other in self.objects.items() if name != one.metadata.name}
            self.objects = others if change.type == "DELETED" else {**others, one.metadata.name: one}
            self._version = one.metadata.resource_version or self._version
        self._set_problem("")
        self._failures = self._cut_short = 0

    def _read(self, change: Change) -> T | None:
        """Read a changed object; None: it cannot be, and is passed over, for it would come again and again.

        Raises ClusterHistoryGone where nothing of it can be read.
        """
        try:
            return decoded(change.object, self._resource.form)
        except ClusterUnavailable as error:
            try:
                bare = decoded(change.object, Watchable).metadata
            except ClusterUnavailable:
                raise ClusterHistoryGone.of(str(error)) from error
            name = self._resource.role_name
            log.warning("watch %s: %s stays as it was last known: %s", name, bare.name, error)
            self._version = bare.resource_version or self._version
            return None

    def _fails(self, error: ClusterUnavailable) -> None:
        self._set_problem(str(error))
        self._failures += 1
        self._wait_at_least = error.retry_after or 0.0

    def _set_problem(self, problem: str) -> None:
        """Log when a problem begins and when it ends."""
        name = self._resource.role_name
        if problem and (not self.problem or not self._failures):
            log.warning("%s; the %d %s that are known stay", problem, len(self.objects), name)
        elif not problem and self.problem and self._failures:
            log.info("%s: the API server answers again", name)
        self.problem = problem
