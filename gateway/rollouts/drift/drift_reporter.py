"""A worker's part in drift: it adds what it has counted to the store, some times a minute."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from gateway.config.settings import Config
from gateway.rollouts.drift.drift_counter import DriftCounter
from gateway.rollouts.drift.stored_slices import add_counts, keep_reference
from gateway.rollouts.drift.subject import DAY_SECONDS, SUBJECTS, Subject, slice_seconds
from gateway.rollouts.regular_reports import report_every
from gateway.tenancy.tenants.transactions import Place, Storage, read
from protos.errors import StoreUnavailable

log = logging.getLogger(__name__)

REPORT_SECONDS: Final = 5.0


class DriftReporter:
    """Adds one worker's counts to the store. `counter` is the sink of its records."""

    def __init__(self, storage: Storage, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self.counter: Final = DriftCounter(_days(config))
        self._storage = storage
        self._clock = clock
        #: The store's clock less this worker's; None: not known yet.
        self._offset: float | None = None
        self._kept: dict[Subject, float] = {}
        self._away = False

    def use(self, config: Config) -> None:
        """Count the models of another configuration from now on."""
        self.counter.use(_days(config))

    async def run(self) -> None:
        """Report until cancelled."""
        await report_every(REPORT_SECONDS, self.report, "counting for drift")

    async def report(self) -> None:
        """Report once. What cannot be added waits for the next time."""
        pending = self.counter.drain()
        try:
            if pending and self._offset is None:
                now, _ = await read(self._storage, [Place(SUBJECTS, "any")])
                self._offset = now - self._clock()
            for subject in list(pending):
                # Not added a second time where no answer came: twice the counts of some seconds would be a drift.
                await self._add(subject, pending.pop(subject))
        except StoreUnavailable as error:
            self.counter.give_back(pending)
            if not self._away:
                log.warning("drift is not counted into the store: %s", error.__cause__ or error)
            self._away = True
        else:
            self._away = False

    async def _add(self, subject: Subject, counts: Mapping[tuple[str, str], int]) -> None:
        assert self._offset is not None
        number = int((self._clock() + self._offset) / slice_seconds(subject.layout))
        now, since = await add_counts(self._storage, subject, number, counts)
        self._offset = now - self._clock()
        if now - self._kept.get(subject, 0.0) >= DAY_SECONDS:
            await keep_reference(self._storage, subject, since)
            self._kept[subject] = now


def _days(config: Config) -> dict[str, int]:
    return {model.name: model.drift.reference_days for model in config.models if model.drift is not None}
