"""Pure rules of migration: whether a request that lost its replica goes on elsewhere, and with which submit."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from protos.errors import Overloaded, PenstockError, ReplicaDraining, ReplicaFailed, ReplicaUnavailable
from protos.features import Feature
from protos.types import Submit
from routing.contracts.policy import RouteRequest

#: Replicas tried for one request until its first token. A drained replica does not count, here and below: that is no
#: fault, and a long answer may see every replica of its pool restarted.
MAX_ATTEMPTS: Final = 3
#: How often an answer that has tokens may lose its replica.
MAX_MOVES: Final = 3


class History(msgspec.Struct, frozen=True):
    """The failures of earlier attempts at the same answers.

    `tried` are the replicas tried since the last token. `failed_at` is the number of tokens at which an engine failed
    on them; None: none did.
    """

    tried: tuple[str, ...] = ()
    retries: int = 0
    moves: int = 0
    failed_at: int | None = None

    def without(self, replica_id: str) -> "History":
        """Return the history with a replica that refused the request at once added to `tried`."""
        return msgspec.structs.replace(self, tried=(*self.tried, replica_id))

    def for_sequence(self, tokens: int, of_all: int) -> "History":
        """Return the history of one of several answers: it has `tokens` tokens, all together have `of_all`."""
        failed_at = tokens if self.failed_at == of_all else None
        return msgspec.structs.replace(self, failed_at=failed_at)


def after_loss(
    history: History, replica_id: str, error: PenstockError, tokens: int, *, progressed: bool
) -> History | None:
    """Return the history after one more loss of answers that have `tokens` tokens; None: no attempt is left.

    `progressed`: the lost replica had produced some of these tokens or at least computed the prompt. A request on
    which two engines failed at the same point is given up: it may be what kills them.
    """
    if not isinstance(error, ReplicaUnavailable | ReplicaFailed | Overloaded):
        return None
    failed = isinstance(error, ReplicaFailed)
    if failed and history.failed_at == tokens:
        return None
    retries, moves = history.retries, history.moves
    drained = isinstance(error, ReplicaDraining)
    if tokens:
        moves += not drained
    else:
        retries += not drained
    if retries >= MAX_ATTEMPTS or moves > MAX_MOVES:
        return None
    return History(
        tried=(replica_id,) if progressed else (*history.tried, replica_id),
        retries=retries,
        moves=moves,
        failed_at=tokens if failed else history.failed_at,
    )


def continuation(submit: Submit, index: int, tokens: Sequence[int]) -> Submit:
    """Return the submit that continues one answer of a request after its `tokens`, fewer than it may have.

    Without tokens it makes the answer again. With tokens and a guide it is for replicas with Feature.GUIDE_RESUMES:
    others would apply the guide from its beginning.
    """
    sampling = submit.sampling
    if sampling.n > 1 or sampling.min_tokens:
        sampling = msgspec.structs.replace(sampling, n=1, min_tokens=max(0, sampling.min_tokens - len(tokens)))
    return Submit(
        request_id=submit.request_id,
        prompt_ids=[*submit.prompt_ids, *tokens],
        max_tokens=submit.max_tokens - len(tokens),
        sampling=sampling,
        generated=len(tokens),
        delta_interval=submit.delta_interval,
        cache_salt=submit.cache_salt,
        sequence=index,
        adapter=submit.adapter,
        guide=submit.guide,
        trace=submit.trace,
        hold_ms=submit.hold_ms,
    )


def continued_route(
    route: RouteRequest, tokens: int, cached: Mapping[str, int], now: float, *, guided: bool = False
) -> RouteRequest:
    """Return the route of one answer that continues after `tokens` tokens; `cached` is for the whole prompt."""
    needs = Feature.RESUMES | Feature.GUIDE_RESUMES if guided and tokens else Feature.RESUMES
    return msgspec.structs.replace(
        route,
        prompt_tokens=route.prompt_tokens + tokens,
        max_tokens=route.max_tokens - tokens,
        n=1,
        expected_output=max(1.0, route.expected_output - tokens),
        cached=cached,
        now=now,
        needs=route.needs | needs.value,
    )
