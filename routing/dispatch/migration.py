"""Pure: whether a request that lost its replica goes on elsewhere, and with what."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from protos.errors import Overloaded, PenstockError, ReplicaDraining, ReplicaFailed, ReplicaUnavailable
from protos.features import Feature
from protos.types import Submit
from routing.contracts.policy import RouteRequest

#: Replicas tried for one request until its first token. One that is drained does not count, here and below: that is
#: nobody's fault, and a long answer may see every replica of its pool restarted.
MAX_ATTEMPTS: Final = 3
#: Times that an answer with tokens loses its replica.
MAX_MOVES: Final = 3


class History(msgspec.Struct, frozen=True):
    """What became of earlier attempts at the same answers.

    `tried` are the replicas that had them since there was a token last. An engine failed on them when there were
    `failed_at` tokens; None: none did.
    """

    tried: tuple[str, ...] = ()
    retries: int = 0
    moves: int = 0
    failed_at: int | None = None

    def without(self, replica_id: str) -> "History":
        """The replica turned out not to take requests, which it was not asked for long."""
        return msgspec.structs.replace(self, tried=(*self.tried, replica_id))

    def of_one(self, tokens: int, of_all: int) -> "History":
        """The same for one of several answers that go on by themselves; they had so many tokens, `of_all` together."""
        failed_at = tokens if self.failed_at == of_all else None
        return msgspec.structs.replace(self, failed_at=failed_at)


def after_loss(
    history: History, replica_id: str, error: PenstockError, tokens: int, *, progressed: bool
) -> History | None:
    """The history with one loss more, of answers that have so many tokens by now; None: this was the last attempt.

    `progressed`: some of these tokens came from the replica that was lost, or it has computed the prompt at least. A
    request that two engines failed on at the same point is given up, for it may be what kills them.
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
    """What goes on with one answer of a request after the tokens that it has: fewer than it may have.

    It is not for answers with a guide, which an engine would follow from its begin.
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
        trace=submit.trace,
    )


def rest_of(route: RouteRequest, tokens: int, cached: Mapping[str, int], now: float) -> RouteRequest:
    """How a decision sees one answer that goes on after so many tokens; `cached` as for the whole prompt."""
    return msgspec.structs.replace(
        route,
        prompt_tokens=route.prompt_tokens + tokens,
        max_tokens=route.max_tokens - tokens,
        n=1,
        expected_output=max(1.0, route.expected_output - tokens),
        cached=cached,
        now=now,
        needs=route.needs | Feature.RESUMES.value,
    )
