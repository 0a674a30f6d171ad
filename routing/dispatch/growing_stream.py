"""The failover stream where shapes change: an answer that outgrows its narrow replica goes on at a wider one."""

from collections.abc import Mapping

import msgspec

from protos.errors import PenstockError, SequenceMoved
from protos.types import Finish, FinishReason
from routing.dispatch.attempt import Attempt
from routing.dispatch.dispatch_context import DispatchContext
from routing.dispatch.failover_stream import FailoverStream
from routing.dispatch.hedged_stream import HedgedStream
from routing.dispatch.migration import continuation, continued_route
from routing.policies.measures import kv_capacity


class GrowingStream(FailoverStream):
    """A failover stream whose answers end with `length` for want of KV memory only where no replica holds more."""

    #: Sequences that have gone on so -> the end that they would have had.
    _outgrown: Mapping[int, Finish] = {}

    def finished(self, attempt: Attempt, index: int, finish: Finish) -> None:
        """End a sequence, or go on with it."""
        if finish.reason is FinishReason.LENGTH and self._has_outgrown(attempt, index):
            self._guarded(lambda: self._grow(attempt, index, finish))
        else:
            super().finished(attempt, index, finish)

    def lost(self, attempt: Attempt, error: PenstockError) -> None:
        """Go on elsewhere; one that has outgrown a replica, and has got nothing more since, ends as it would have."""
        finish = self._outgrown.get(attempt.sequence)
        if finish is None or isinstance(error, SequenceMoved) or attempt.tokens > attempt.tokens_before:
            super().lost(attempt, error)
            return
        self._leave(attempt, error)
        self._over.add(attempt.sequence)
        self.end(attempt.sequence, finish)

    def _has_outgrown(self, attempt: Attempt, index: int) -> bool:
        """Whether the memory of the replica, and nothing else, was too small for more."""
        submit, count = self._submit, len(self.tokens[index])
        capacity = kv_capacity(attempt.decision.replica)
        over = index in self._over or attempt.relay is not None
        return not over and count < submit.max_tokens and 0 < capacity <= len(submit.prompt_ids) + count

    def _grow(self, attempt: Attempt, index: int, finish: Finish) -> None:
        """Go on with a sequence where more fits, if that is anywhere; else it ends."""
        dispatch_context, submit, tokens = self._dispatch_context, self._submit, self.tokens[index]
        cached, guided = dispatch_context.cached(self.route), submit.guide is not None
        route = continued_route(self.route, len(tokens), cached, dispatch_context.clock(), guided=guided)
        views = dispatch_context.fleet.candidates((), route.needs, route.adapter)
        narrow = tuple(view.id for view in views if kv_capacity(view) <= len(submit.prompt_ids) + len(tokens))
        try:
            history = msgspec.structs.replace(attempt.history, tried=narrow)
            self._place(route, continuation(submit, index, tokens), history, None)
        except PenstockError:
            super().finished(attempt, index, finish)
            return
        self._outgrown = {**self._outgrown, index: finish}
        self.migrations += 1
        attempt.grown |= {index}
        if not attempt.left:
            self._leave(attempt)


class GrowingHedgedStream(GrowingStream, HedgedStream):
    """The same of a model with hedging."""


def stream_kind(dispatch_context: DispatchContext) -> type[FailoverStream]:
    """Return the kind of a request's stream."""
    if dispatch_context.fleet.wide_tokens:
        return GrowingStream if dispatch_context.hedging is None else GrowingHedgedStream
    return FailoverStream if dispatch_context.hedging is None else HedgedStream
