"""The services of one worker that endpoints use."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.api.server.intake import Intake
from gateway.api.server.request_watchdog import RequestWatchdog
from gateway.config.batches import Batches
from gateway.config.listen import Listen
from gateway.config.responses import Responses
from gateway.filtering.filters.filter_policies import Policies
from gateway.jobs.batches.jobs import Jobs
from gateway.jobs.files.file_store import Files
from gateway.jobs.responses.background_work import BackgroundWork
from gateway.jobs.responses.conversation_store import ConversationStore
from gateway.jobs.responses.response_store import ResponseStore
from gateway.models.catalog import ModelCatalog
from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.telemetry.record_publisher import RecordPublisher
from gateway.tenancy.limits.limiter import Limiter
from observability.digests import Digests
from observability.tracing.sampling import HeadSampler


@dataclass(frozen=True, slots=True)
class Bounds:
    """Sections of the configuration that bound what clients may send."""

    listen: Listen
    responses: Responses
    batches: Batches


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether requests would be served now; `problems` are for anybody's eyes, one sentence each.

    With problems it may be ready all the same, for a part of the requests.
    """

    ready: bool
    problems: tuple[str, ...]


@dataclass(slots=True)
class Services:
    """Composed once at start (gateway/server/gateway.py); requests only read it.

    `readiness` says whether requests would be served now. `digests` is None where the journal keeps no
    hashes. Where it `describes` no answers, nobody reads the records of requests.
    """

    bounds: Bounds
    intake: Intake
    watchdog: RequestWatchdog
    catalog: ModelCatalog
    policies: Policies
    limiter: Limiter
    encoding: EncodingQueue
    sampler: HeadSampler
    record_publisher: RecordPublisher
    describes: bool
    digests: Digests | None
    responses: ResponseStore
    conversations: ConversationStore
    background: BackgroundWork
    files: Files
    jobs: Jobs
    readiness: Callable[[], Awaitable[Readiness]]
