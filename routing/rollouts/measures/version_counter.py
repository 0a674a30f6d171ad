"""A sink that counts the measures of both versions of a model in the records of ended requests.

Many records are counted together, by `map` and its like: none of them costs a step of the interpreter by itself.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain, compress, repeat
from math import log
from operator import and_, attrgetter, floordiv, gt, sub, truediv
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
#: Records that wait to be counted at most.
_MOST_WAITING: Final = 4096

_ANSWERED: Final = frozenset((Outcome.OK, Outcome.CUT))
#: What a version is to blame for, or at least its room: not the store, and nothing that clients have done.
_FAILED: Final = FAILURES - {Outcome.STORE_ERROR}
_COUNTED: Final = _ANSWERED | _FAILED | {Outcome.CLIENT_GONE}
#: The same of requests in the background, which run out of time wherever others need the room.
_COUNTED_IN_BACKGROUND: Final = _COUNTED - {Outcome.TIMEOUT, Outcome.CLIENT_GONE}
_TRUNCATED: Final = FinishReason.LENGTH.value


class Answered(NamedTuple):
    """An answer that clients may tell something about: its id, its tenant, and where it was counted."""

    id: str
    tenant: str
    model: str
    rollout: str
    version: str
    begin: int


_Group = list[RequestRecord]
#: What requests have in common that are counted together, beside their slice and their stratum.
_IN_COMMON: Final = attrgetter("model", "version", "rollout_epoch", "outcome", "background")
_WALL, _PROMPT, _FAILED_VERSION = attrgetter("wall"), attrgetter("prompt_tokens"), attrgetter("failed_version")
_ARRIVED, _FIRST, _LAST = attrgetter("arrived"), attrgetter("first_token"), attrgetter("last_token")
_COMPLETION, _SEQUENCES, _CACHED = attrgetter("completion_tokens"), attrgetter("sequences"), attrgetter("cached_tokens")
_COST, _FINISH, _REPLICA = attrgetter("cost_nano_usd"), attrgetter("finish"), attrgetter("replica")
_CHECKS, _VERDICTS = attrgetter("checks"), attrgetter("verdicts")
_ID, _TENANT = attrgetter("id"), attrgetter("tenant")


class VersionCounter:
    """The measures of one worker, by rollout and version, up to the last `settle`.

    `changed` names what has changed since it was last emptied: a rollout, a version and a slice's begin. `answered`
    gathers answers until somebody takes them.

    Of requests in the background neither times nor refusals for want of room count: they are served with what others
    leave, and each version leaves something else.
    """

    def __init__(self, split_of: Callable[[str], Split | None], clock: Callable[[], float]) -> None:
        """`split_of` tells how a model's requests are divided, None: not at all; `clock` is in seconds since 1970."""
        self.measures: dict[tuple[str, str], Measures] = {}
        self.changed: set[tuple[str, str, int]] = set()
        self.answered: list[Answered] = []
        self._split_of = split_of
        self._clock = clock
        self._waiting: _Group = []

    def take(self, records: Sequence[RequestRecord]) -> None:
        """Keep ended requests until they are counted."""
        self._waiting += records
        if len(self._waiting) >= _MOST_WAITING:
            self.settle()

    def settle(self) -> None:
        """Count what was taken."""
        records, self._waiting = self._waiting, []
        for record in compress(records, map(_FAILED_VERSION, records)):
            split = self._split_of(record.asked_model)
            if not record.background and _is_compared(split, record.failed_version, record.failed_epoch):
                self._count_failed(split, record)
        groups: defaultdict[tuple[tuple[str, str, int, Outcome, bool], float, int], _Group] = defaultdict(list)
        slices = map(floordiv, map(_WALL, records), repeat(SLICE_SECONDS))
        kinds = zip(map(_IN_COMMON, records), slices, map(stratum_of, map(_PROMPT, records)), strict=True)
        _exhaust(map(list.append, map(groups.__getitem__, kinds), records))
        for ((model, version, epoch, outcome, background), number, stratum), group in groups.items():
            counted = _COUNTED_IN_BACKGROUND if background else _COUNTED
            split = self._split_of(model) if version and outcome in counted else None
            if _is_compared(split, version, epoch) and (divided := _divided(split, group)):
                piece = self._piece(split.salt, version, int(number) * SLICE_SECONDS)
                piece.epoch = max(piece.epoch, epoch)
                _count(piece, stratum, outcome, divided)
                if not background:
                    _time(piece, stratum, outcome, divided)
                if outcome in _ANSWERED:
                    self.answered += _answered(divided, split.salt, version)

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

    def _count_failed(self, split: Split, record: RequestRecord) -> None:
        """Count the failure of a version from which the client's request went on to a fallback."""
        if not _divided(split, [record]):
            return
        piece = self._piece(split.salt, record.failed_version, int(record.wall))
        piece.epoch = max(piece.epoch, record.failed_epoch)
        for event in (REQUESTS, FAILED, "error.fell_back"):
            piece.count(event)


def _count(piece: Slice, stratum: int, outcome: Outcome, group: _Group) -> None:
    """Count requests with one outcome and prompts of one stratum, which arrived in one slice."""
    count, number = piece.count, len(group)
    count(REQUESTS, number)
    for replica, times in Counter(map(_REPLICA, group)).items():
        if replica:
            piece.replicas[replica] = piece.replicas.get(replica, 0) + times
    if outcome in _FAILED:
        count(FAILED, number)
        count(f"error.{outcome.value}", number)
    elif outcome is Outcome.CLIENT_GONE:
        count(outcome.value, number)
    if outcome not in _ANSWERED:
        return
    count(ANSWERS, number)
    for finish, times in Counter(filter(None, map(_FINISH, group))).items():
        count(f"finish.{finish}", times)
        if finish == _TRUNCATED:
            count("truncated", times)
    if outcome is Outcome.CUT:
        count("cut", number)
    for record in compress(group, map(_VERDICTS, group)):
        if any(verdict.where == "answer" for verdict in record.verdicts):
            count("flagged")
    for event, times in Counter(chain.from_iterable(map(_CHECKS, group))).items():
        count(event, times)
    count("prompt_tokens", sum(map(_PROMPT, group)))
    count("cached_tokens", sum(map(_CACHED, group)))
    for measure, event, value in (("output_tokens", "output_tokens", _COMPLETION), ("cost", "cost_nano_usd", _COST)):
        sizes = list(filter(None, map(value, group)))
        if sizes:
            count(event, sum(sizes))
            piece.add(measure, stratum, list(map(log, sizes)))


def _time(piece: Slice, stratum: int, outcome: Outcome, group: _Group) -> None:
    """Count requests' times; what broke off has no whole time."""
    begun = list(compress(group, map(gt, map(_FIRST, group), map(_ARRIVED, group))))
    tokens = list(map(truediv, map(_COMPLETION, begun), map(max, map(_SEQUENCES, begun), repeat(1))))
    spans = list(map(sub, map(_LAST, begun), map(_FIRST, begun)))
    paced = list(map(and_, map(gt, tokens, repeat(1.0)), map(gt, spans, repeat(0.0))))
    times: list[tuple[str, Iterable[float]]] = [
        ("ttft", map(sub, map(_FIRST, begun), map(_ARRIVED, begun))),
        ("tpot", map(truediv, compress(spans, paced), map(sub, compress(tokens, paced), repeat(1.0)))),
    ]
    if outcome in _ANSWERED:
        whole = list(map(sub, map(_LAST, begun), map(_ARRIVED, begun)))
        times.append(("seconds", compress(whole, map(gt, whole, repeat(0.0)))))
    for measure, values in times:
        logarithms = list(map(log, values))
        if logarithms:
            piece.add_times(measure, stratum, logarithms)


def _answered(group: _Group, rollout: str, version: str) -> Iterable[Answered]:
    where = repeat(rollout), repeat(version), map(int, map(_WALL, group))
    rows = zip(map(_ID, group), map(_TENANT, group), map(attrgetter("model"), group), *where, strict=False)
    return map(partial(tuple.__new__, Answered), rows)


def _is_compared(split: Split | None, version: str, epoch: int) -> TypeGuard[Split]:
    """Whether requests to a version are of those that are divided: others are not like them."""
    if split is None or not split.candidate or version not in (split.stable, split.candidate):
        return False
    # What a header forced to a version, or came before the candidate got its share, has no epoch.
    return bool(epoch) or (not split.share and version == split.stable)


def _divided(split: Split, group: _Group) -> _Group:
    """Return the requests of those whose requests are divided."""
    tenants, tiers = split.tenants, split.tiers
    if not tenants and not tiers:
        return group
    return [
        record for record in group if (not tenants or record.tenant in tenants) and (not tiers or record.tier in tiers)
    ]


def _exhaust(calls: Iterable[object]) -> None:
    deque(calls, maxlen=0)
