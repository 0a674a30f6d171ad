"""The parts of a worker that copy requests: to candidates, and into corpora."""

import asyncio
from collections.abc import Callable, Collection, Mapping

from gateway.api.candidates.candidate_requests import CandidateRequests
from gateway.api.candidates.copies import Copies
from gateway.api.candidates.golden_runner import GoldenRunner
from gateway.api.candidates.recorder import Recorder
from gateway.api.candidates.redacted_texts import RedactedTexts
from gateway.api.candidates.shadow_runs import ShadowRuns
from gateway.api.server.services import Services
from gateway.config.settings import Config, usable_cores
from gateway.models.served_model import ServedModel
from gateway.rollouts.golden.golden_jobs import GoldenJobs
from gateway.rollouts.replay.recording import Recordings
from gateway.rollouts.shadow.shadow_turns import ShadowTurns
from gateway.store.store_client import Store
from gateway.telemetry.record_publisher import RecordPublisher


class Copying:
    """Made when a configuration first has a use for it, and then kept; it needs a running event loop."""

    def __init__(
        self,
        store: Store,
        config: Config,
        services: Callable[[], Services],
        publisher: RecordPublisher,
        active: Collection[object],
        worker: str,
    ) -> None:
        """`services` gives those in use, `active` are the requests of the `worker`; the `publisher` takes the records
        of its own.
        """
        redacted = RedactedTexts()

        def models() -> Mapping[str, ServedModel]:
            return services().catalog.models

        self._requests = CandidateRequests(services, publisher, len(config.tiers) - 1)
        self._shadows = ShadowRuns(
            store,
            self._requests,
            redacted,
            active,
            lambda: services().bounds.listen.max_in_flight,
            models,
            ShadowTurns(store, worker, config.listen.worker_count(usable_cores())),
        )
        recorder = Recorder(Recordings(store), redacted)
        self.copies = Copies(self._shadows, recorder)
        golden = GoldenRunner(GoldenJobs(store), self._requests, models, worker)
        self._tasks = [asyncio.create_task(part.run()) for part in (self._shadows, recorder, golden)]

    def use(self, config: Config) -> None:
        """Go by another configuration from now on."""
        self._requests.lowest = len(config.tiers) - 1

    async def aclose(self) -> None:
        """End all copies. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._shadows.aclose()
