"""A worker's part in rollouts: it counts what both versions' answers came to, and reports it once a second."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from gateway.rollouts.measures.answer_index import Place, TellKind, find_answer, index_answers, suffix_of, tell
from gateway.rollouts.measures.stored_measures import report_measures
from gateway.rollouts.regular_reports import report_every
from gateway.tenancy.tenants.transactions import Storage
from protos.errors import RateLimited, StoreUnavailable
from routing.rollouts.measures.events import THUMBS
from routing.rollouts.measures.version_counter import LATE_SECONDS, Answered, VersionCounter
from routing.rollouts.split import Split

log = logging.getLogger(__name__)

REPORT_SECONDS: Final = 1.0
#: Until records reach their sinks, and a report the store.
_GATHER_SECONDS: Final = 0.5
_LATE_SECONDS: Final = REPORT_SECONDS + _GATHER_SECONDS
#: A tenant's feedback that waits at a worker at a time for its answers to be reported.
MOST_LATE: Final = 16
#: Answers that wait for the store at most; of more, the oldest are forgotten: nothing can be told of them.
_MOST_WAITING: Final = 50_000
#: Seconds after which a slice is dropped here: the counter puts nothing into older ones.
_OLD_SECONDS: Final = 2 * LATE_SECONDS


class MeasureReporter:
    """Reports the measures of one worker. `counter` is the sink of its records."""

    def __init__(
        self,
        storage: Storage,
        worker: str,
        split_of: Callable[[str], Split | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`worker` is a name never used before; `split_of` tells how a model's requests are divided."""
        self.counter = VersionCounter(split_of, clock)
        self._storage = storage
        self._worker = worker
        self._clock = clock
        self._away = False
        self._late: Counter[str] = Counter()

    async def run(self) -> None:
        """Report until cancelled."""
        await report_every(REPORT_SECONDS, self.report, "reporting the measures of versions")

    async def aclose(self) -> None:
        """Report the rest."""
        await self.report()

    async def report(self) -> None:
        """Report what has changed. What the store did not take is reported again; it counts once."""
        self.counter.settle()
        # What is counted meanwhile has changed again.
        changed, self.counter.changed = self.counter.changed, set()
        answered, self.counter.answered = self.counter.answered, []
        try:
            for rollout in {rollout for rollout, _, _ in changed}:
                await self._report(rollout, [(version, begin) for r, version, begin in changed if r == rollout])
            await self._index(answered)
        except StoreUnavailable as error:
            self.counter.changed |= changed
            self.counter.answered = [*answered, *self.counter.answered][-_MOST_WAITING:]
            if not self._away:
                log.warning("the measures of versions are not reported: %s", error.__cause__ or error)
            self._away = True
        else:
            self._away = False
        self._drop_old()

    async def find(self, tenant: str, answer: str) -> Place | None:
        """Return where an answer was counted, by its id; None: the tenant has no such one.

        A worker tells of its answers once a second, so that an answer of just now is waited for as long.

        Raises:
            RateLimited: Too much of the tenant's feedback waits already; unknown ids must not fill the worker.
            StoreUnavailable: The store did not answer.
        """
        found = await find_answer(self._storage, tenant, answer)
        if found is not None or suffix_of(answer) is None:
            return found
        if self._late[tenant] >= MOST_LATE:
            raise RateLimited(
                f"{MOST_LATE} pieces of your feedback on answers that are not known yet wait already.",
                retry_after=_LATE_SECONDS,
            )
        self._late[tenant] += 1
        try:
            await asyncio.sleep(_LATE_SECONDS)
        finally:
            self._late[tenant] -= 1
            if not self._late[tenant]:
                del self._late[tenant]
        return await find_answer(self._storage, tenant, answer)

    async def tell(self, tenant: str, answer: str, place: Place, told: Sequence[TellKind], rating: str) -> None:
        """Count a client's feedback on an answer; feedback that it has given before is not counted again.

        `rating` is `up` or `down` where a rating is told.

        Raises:
            StoreUnavailable: The store did not answer.
        """
        kinds = await tell(self._storage, tenant, answer, told)
        events: list[str] = [kind for kind in kinds if kind != "rating"]
        if "rating" in kinds:
            events += [THUMBS, f"thumbs_{rating}"]
        if events:
            self.counter.add(place.rollout, place.version, place.begin, events)

    async def _report(self, rollout: str, changed: Sequence[tuple[str, int]]) -> None:
        measures = {version: found for (r, version), found in self.counter.measures.items() if r == rollout}
        await report_measures(self._storage, self._worker, rollout, measures, changed)

    async def _index(self, answered: Sequence[Answered]) -> None:
        by_tenant: dict[str, list[Answered]] = {}
        for answer in answered:
            by_tenant.setdefault(answer.tenant, []).append(answer)
        for tenant, answers in by_tenant.items():
            await index_answers(self._storage, tenant, answers)

    def _drop_old(self) -> None:
        """Forget what is written and grows no more."""
        now = self._clock()
        for key, measures in list(self.counter.measures.items()):
            for begin in [begin for begin in measures.slices if now - begin > _OLD_SECONDS]:
                if (*key, begin) not in self.counter.changed:
                    del measures.slices[begin]
            if not measures.slices:
                del self.counter.measures[key]
