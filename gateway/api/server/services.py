"""The services of one worker that endpoints use."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gateway.api.server.answer_copies import AnswerCopies
from gateway.api.server.intake import Intake
from gateway.api.server.request_watchdog import RequestWatchdog
from gateway.config.batches import Batches
from gateway.config.listen import Listen
from gateway.config.responses import Responses
from gateway.filtering.filters.filter_policies import Policies
from gateway.inference.generation import Generation
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

if TYPE_CHECKING:
    from gateway.rollouts.measures.answer_index import Place, TellKind


class Feedback(Protocol):
    """Finds the answer that a client's feedback is on, and counts the feedback."""

    async def find(self, tenant: str, answer: str) -> "Place | None":
        """Return where an answer was counted, by its id; None: the tenant has no such one. Raises StoreUnavailable."""
        ...

    async def tell(self, tenant: str, answer: str, place: "Place", told: "Sequence[TellKind]", rating: str) -> None:
        """Count a client's feedback on an answer, each kind once. Raises StoreUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """Sections of the configuration that bound what clients may send."""

    listen: Listen
    responses: Responses
    batches: Batches


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether requests would be served now; `problems` are for anybody's eyes, one sentence each.

    With problems it may be ready all the same, for a part of the requests. `ready_for_some`: for those of one model.
    """

    ready: bool
    ready_for_some: bool
    problems: tuple[str, ...]


@dataclass(slots=True)
class Services:
    """Composed for one configuration (gateway/server/gateway.py); requests only read it, and keep it to their end.

    `readiness` says whether requests would be served now. `digests` is None where the journal keeps no
    hashes. `describe` fills in an answer's record; where it `describes` none, nobody reads the records of requests.
    `feedback` takes what clients tell of answers; None: no model's requests go by version.
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
    describe: Callable[[Generation], None]
    digests: Digests | None
    feedback: Feedback | None
    responses: ResponseStore
    conversations: ConversationStore
    background: BackgroundWork
    files: Files
    jobs: Jobs
    readiness: Callable[[], Awaitable[Readiness]]
    #: What copies requests to candidates and into corpora; None: the configuration has no use for it.
    copies: AnswerCopies | None = None
