"""A sink that counts the measures of both versions of a model in the records of ended requests."""

from collections.abc import Callable, Collection, Sequence
from math import log
from typing import Final, NamedTuple, TypeGuard

from observability.outcome import FAILED as FAILURES
from observability.outcome import Outcome
from observability.record import RequestRecord
from protos.types import FinishReason
from routing.rollouts.measures.events import ANSWERS, FAILED, REQUESTS
from routing.rollouts.measures.measures import Measures
from routing.rollouts.measures.slice import SLICE_SECONDS, Slice, stratum_of
from routing.rollouts.split import Split

#: A request that arrived earlier counts as if it had arrived so many seconds ago: what is older is put together.
LATE_SECONDS: Final = 120

_ANSWERED: Final = frozenset((Outcome.OK, Outcome.CUT))
#: What a version is to blame for, or at least its room: not the store, and nothing that clients have done.
_FAILED: Final = FAILURES - {Outcome.STORE_ERROR}
_COUNTED: Final = _ANSWERED | _FAILED | {Outcome.CLIENT_GONE}
_TRUNCATED: Final = FinishReason.LENGTH.value


class Answered(NamedTuple):
    """An answer that clients may tell something about: its id, its tenant, and where it was counted."""

    id: str
    tenant: str
    model: str
    rollout: str
    version: str
    begin: int


class VersionCounter:
    """The measures of one worker, by rollout and version.

    `changed` names what has changed since it was last emptied: a rollout, a version and a slice's begin. `answered`
    gathers answers until somebody takes them.
    """

    def __init__(self, split_of: Callable[[str], Split | None], clock: Callable[[], float]) -> None:
        """`split_of` tells how a model's requests are divided, None: not at all; `clock` is in seconds since 1970."""
        self.measures: dict[tuple[str, str], Measures] = {}
        self.changed: set[tuple[str, str, int]] = set()
        self.answered: list[Answered] = []
        self._split_of = split_of
        self._clock = clock

    def take(self, records: Sequence[RequestRecord]) -> None:
        """Count ended requests."""
        for record in records:
            if record.failed_version:
                split = self._split_of(record.asked_model)
                if _is_compared(split, record, record.failed_version, record.failed_epoch):
                    self._count_failed(split.salt, record)
            if record.version and record.outcome in _COUNTED:
                split = self._split_of(record.model)
                if _is_compared(split, record, record.version, record.rollout_epoch):
                    self._count(split.salt, record)

    def add(self, rollout: str, version: str, begin: int, events: Collection[str]) -> None:
        """Count later feedback on an answer of the slice that begins then."""
        piece = self._piece(rollout, version, begin)
        for event in events:
            piece.count(event)

    async def aclose(self) -> None:
        """Nothing is left to do: the reporter has its own end."""

    def _piece(self, rollout: str, version: str, begin: int) -> Slice:
        begin = max(begin, int(self._clock()) - LATE_SECONDS)
        begin -= begin % SLICE_SECONDS
        self.changed.add((rollout, version, begin))
        slices = self.measures.setdefault((rollout, version), Measures()).slices
        piece = slices.get(begin)
        if piece is None:
            piece = slices[begin] = Slice()
        return piece

    def _count_failed(self, rollout: str, record: RequestRecord) -> None:
        """Count the failure of a version from which the client's request went on to a fallback."""
        piece = self._piece(rollout, record.failed_version, int(record.wall))
        piece.epoch = max(piece.epoch, record.failed_epoch)
        for event in (REQUESTS, FAILED, "error.fell_back"):
            piece.count(event)

    def _count(self, rollout: str, record: RequestRecord) -> None:
        version, outcome = record.version, record.outcome
        piece = self._piece(rollout, version, int(record.wall))
        count = piece.count
        count(REQUESTS)
        piece.epoch = max(piece.epoch, record.rollout_epoch)
        if record.replica:
            piece.replicas[record.replica] = piece.replicas.get(record.replica, 0) + 1
        if outcome in _FAILED:
            count(FAILED)
            count(f"error.{outcome.value}")
        elif outcome is Outcome.CLIENT_GONE:
            count(outcome.value)
        stratum = stratum_of(record.prompt_tokens)
        _time(piece, stratum, record)
        if outcome not in _ANSWERED:
            return
        count(ANSWERS)
        if record.finish:
            count(f"finish.{record.finish}")
            if record.finish == _TRUNCATED:
                count("truncated")
        if outcome is Outcome.CUT:
            count("cut")
        if record.verdicts and any(verdict.where == "answer" for verdict in record.verdicts):
            count("flagged")
        for event in record.checks:
            count(event)
        count("prompt_tokens", record.prompt_tokens)
        count("cached_tokens", record.cached_tokens)
        if record.completion_tokens:
            count("output_tokens", record.completion_tokens)
            piece.add("output_tokens", stratum, log(record.completion_tokens))
        if record.cost_nano_usd:
            count("cost_nano_usd", record.cost_nano_usd)
            piece.add("cost", stratum, log(record.cost_nano_usd))
        self.answered.append(Answered(record.id, record.tenant, record.model, rollout, version, int(record.wall)))


def _is_compared(split: Split | None, record: RequestRecord, version: str, epoch: int) -> TypeGuard[Split]:
    """Whether a request to a version is one of those that are divided: others are not like them."""
    if split is None or not split.candidate or version not in (split.stable, split.candidate):
        return False
    if (split.tenants and record.tenant not in split.tenants) or (split.tiers and record.tier not in split.tiers):
        return False
    # What a header forced to a version, or came before the candidate got its share, has no epoch.
    return bool(epoch) or (not split.share and version == split.stable)


def _time(piece: Slice, stratum: int, record: RequestRecord) -> None:
    """Count a request's times; what broke off has no whole time."""
    first, last = record.first_token, record.last_token
    if not first or first <= record.arrived:
        return
    piece.add_time("ttft", stratum, log(first - record.arrived))
    tokens = record.completion_tokens / max(record.sequences, 1)
    if tokens > 1 and last > first:
        piece.add_time("tpot", stratum, log((last - first) / (tokens - 1)))
    if record.outcome in _ANSWERED and last > record.arrived:
        piece.add_time("seconds", stratum, log(last - record.arrived))
