"""The failover stream: one request's answer as one unbroken stream, whatever replicas it takes.

A small state machine: attempts (routing/dispatch/attempt.py) call it from the wire's reader, and it decides at once,
without tasks of its own. Tokens do not pass through it but go from the wire to its inbox.
"""

import asyncio
import logging
from collections.abc import Callable
from copy import copy
from math import ceil
from typing import Final, Protocol

import msgspec

from observability.logs import RateLimit
from protos.errors import AnswerLost, InternalError, PenstockError, ReplicaUnavailable, SequenceMoved
from protos.types import Finish, FinishReason, Submit
from routing.contracts.policy import Decision, RouteRequest
from routing.contracts.transport import Relay
from routing.dispatch.attempt import Attempt
from routing.dispatch.disaggregated import PairAttempt
from routing.dispatch.dispatch_context import DispatchContext
from routing.dispatch.migration import History, after_loss, continuation, continued_route
from routing.fleet.host_groups import SPREAD_SECONDS
from routing.transports.inbox import Inbox

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=20))

#: Seconds to the deadline below which a request without a token is not retried.
LEAST_SECONDS: Final = 0.05
#: Seconds for which a request that lost its replica waits for a member of a host group, where no other replica is
#: left: members notice within 2 s that the wide replica is gone, and serve their own GPUs again.
MEMBER_SECONDS: Final = 4.0
_NO_HISTORY: Final = History()


class Admission(Protocol):
    """An admission to run that was given for a decision, with callbacks for the request's progress."""

    @property
    def decision(self) -> Decision | None:
        """Decision of the first attempt; None: the policy decides."""
        ...

    @property
    def kv_tokens(self) -> int:
        """KV tokens that the request is expected to fill."""
        ...

    def opened(self, replica_id: str, *, computes: bool) -> None:
        """A submit was sent to that replica and counts in its view. Called once per submit.

        `computes`: the replica computes the prompt itself; else the KV cache is handed over.
        """
        ...

    def started(self) -> None: ...


class FailoverStream(Inbox):
    """The `TokenStream` of a request, the `Owner` of its attempts and the inbox of their tokens.

    `cached_tokens` are the first replica's.
    """

    cached_tokens = 0
    #: The answer's bytes, for an answer that is relayed.
    relay: Relay | None = None
    #: The upstream's figures for a relayed answer that has ended.
    counts: Finish | None = None
    #: Makes the reader forget a sequence that begins again; None: what it has read, it may have shown.
    begin_again: Callable[[int], None] | None = None
    #: Further submits: in place of a failed one, of one that had begun to answer, and beside a slow one.
    retries = migrations = hedges = 0
    #: The last decision followed.
    decision: Decision | None = None
    _started = False

    def __init__(
        self, dispatch_context: DispatchContext, route: RouteRequest, submit: Submit, admission: Admission | None
    ) -> None:
        """The submit's first sequence is number 0."""
        super().__init__(submit.sampling.n, self.fail, asyncio.get_running_loop())
        self.route = route
        self._dispatch_context = dispatch_context
        self._submit = submit
        self._admission = admission
        self._attempts: list[Attempt] = []
        self._over: set[int] = set()

    @property
    def replica_id(self) -> str:
        return self.decision.replica.id if self.decision is not None else ""

    def begin(self) -> None:
        """Send the request where its admission decided, if that still takes requests, else where the policy says.

        Raises ReplicaUnavailable when no replica takes it.
        """
        admission = self._admission
        self._place(self.route, self._submit, _NO_HISTORY, None, None if admission is None else admission.decision)

    def dismiss(self, index: int) -> None:
        self._over.add(index)

    def fail(self, error: PenstockError) -> None:
        """Fail the stream: cancel at the engine and let `receive` raise `error`. The first error counts."""
        if not self.failed:
            super().fail(error)
            self._end(error)

    def close(self) -> None:
        self._end(None)

    def opened(self, attempt: Attempt) -> None:
        admission, replica_id = self._admission, attempt.replica_id
        if admission is not None:
            prefill = attempt.decision.prefill
            admission.opened(replica_id, computes=prefill is None or replica_id == prefill.id)

    def started(self, attempt: Attempt) -> None:
        self._dispatch_context.started(attempt)
        if self._admission is not None:
            self._admission.started()
        if not self._started:
            self._started = True
            self.cached_tokens = attempt.cached_tokens

    def relayed(self, attempt: Attempt, relay: Relay) -> None:
        """The answer is relayed as bytes, which cannot go on elsewhere."""
        self.relay = relay
        self.put((attempt.sequence, (), None, None))

    def finished(self, attempt: Attempt, index: int, finish: Finish) -> None:
        self._over.add(index)
        if attempt.relay is not None and index == attempt.sequence:
            self.counts = finish
        if not attempt.left:
            self._attempts.remove(attempt)
            attempt.close()
            self._dispatch_context.ended(attempt, None)
        # Whole answers are read at their end only, so the last tokens and the end are one event.
        self.end(index, finish, join=self._submit.hold_ms > 0)

    def parted(self, attempt: Attempt) -> None:
        self._leave(attempt)
        self._guarded(lambda: self._continue(attempt, attempt.history, None))

    def lost(self, attempt: Attempt, error: PenstockError) -> None:
        """Continue what the lost attempt left unfinished elsewhere, or end the stream with the error."""
        self._leave(attempt, error)
        # One error object fails all streams of a replica; raised in each, its traceback would keep them all alive.
        own = copy(error)
        self._guarded(lambda: self._after(attempt, own))

    def _guarded(self, move: Callable[[], None]) -> None:
        """Run `move`; an exception must neither end the session whose task this is nor leave the reader waiting."""
        try:
            move()
        except PenstockError as error:
            self.fail(error)
        except Exception:
            log.exception("request %s cannot go on", self.route.request_id)
            self.fail(InternalError("The gateway failed on this request."))

    def _after(self, attempt: Attempt, error: PenstockError) -> None:
        tokens = attempt.tokens
        progressed = tokens > attempt.tokens_before or attempt.started_at is not None
        history = after_loss(attempt.history, attempt.replica_id, error, tokens, progressed=progressed)
        untouched = not tokens and self._over.isdisjoint(attempt.indices)
        if history is None or attempt.relay is not None:
            raise error
        log.log(
            logging.DEBUG if isinstance(error, SequenceMoved) else logging.WARNING,
            "request %s: replica %s failed %s: %s",
            attempt.route.request_id,
            attempt.replica_id,
            "before its first token" if untouched else f"after {tokens} tokens",
            error.detail or error.message,
        )
        if untouched:
            self._retry(attempt, history, error)
        else:
            self._continue(attempt, history, error)

    def _retry(self, attempt: Attempt, history: History, error: PenstockError) -> None:
        """Send the submit once more. Raises `error` when it may not be retried."""
        dispatch_context = self._dispatch_context
        route = msgspec.structs.replace(attempt.route, now=dispatch_context.clock())
        if isinstance(error, SequenceMoved):
            self.migrations += 1
        elif route.deadline - route.now < LEAST_SECONDS or not dispatch_context.budget.take():
            raise error
        else:
            self.retries += 1
        route, taker = dispatch_context.taker(route, history.tried, error)
        self._place(route, attempt.submit, history, error, taker)

    def _continue(self, attempt: Attempt, history: History, error: PenstockError | None) -> None:
        """Continue each unfinished sequence from the tokens that it has. Raises `error` if it cannot.

        A guided one, which only some engines can continue, begins again where that is not possible and nobody has seen
        any of it; else AnswerLost is raised.
        """
        dispatch_context, submit = self._dispatch_context, self._submit
        now, cached, before = dispatch_context.clock(), dispatch_context.cached(self.route), attempt.tokens
        for index in attempt.indices:
            tokens = self.tokens[index]
            if index in self._over or index in attempt.grown:
                continue
            if len(tokens) >= submit.max_tokens:  # only its end had not come yet
                self._over.add(index)
                self.end(index, Finish(FinishReason.LENGTH, len(submit.prompt_ids), 0, len(tokens)))
                continue
            guided = submit.guide is not None
            route = continued_route(self.route, len(tokens), cached, now, guided=guided)
            own = history if attempt.sequences == 1 else history.for_sequence(len(tokens), before)
            self.migrations += 1
            route, taker = dispatch_context.taker(route, own.tried, error)
            try:
                self._place(route, continuation(submit, index, tokens), own, error, taker)
            except PenstockError:
                if not guided or not tokens:
                    raise
                self._forget(index)
                route = continued_route(self.route, 0, cached, now)
                self._place(route, continuation(submit, index, ()), own, error)

    def _forget(self, index: int) -> None:
        """Forget a sequence's tokens. Raises AnswerLost where its reader may have shown some of them."""
        if self.begin_again is None and not self.is_unread(index):
            raise AnswerLost(
                "The replica of this answer was lost, and no other one can go on with an answer that has begun under a "
                "guide (a format, strict tools or a forced call). Send the request again."
            )
        self.forget(index)
        if self.begin_again is not None:
            self.begin_again(index)

    def _place(
        self,
        route: RouteRequest,
        submit: Submit,
        history: History,
        failure: PenstockError | None,
        decision: Decision | None = None,
        until: float | None = None,
    ) -> None:
        """Send a submit where `decision` or the policy says. Raises `failure` (ReplicaUnavailable where that is None)
        when no replica takes it.

        A submit after a loss waits for members of host groups, in all `until` the given time: where nothing else takes
        it, and a little where several return, among which what their wide replica had is to be spread.
        """
        dispatch_context, kv_tokens = self._dispatch_context, self._kv_tokens(route, submit)
        while True:
            if decision is None or not dispatch_context.takes(decision):
                spread = failure is not None and until is None and self._is_spread(history)
                if spread and self._awaits_member(route, submit, history, failure, until, SPREAD_SECONDS):
                    return
                try:
                    decision = dispatch_context.choose(route, history.tried, failure)
                except PenstockError:
                    # Nothing of it has been answered: it may still be another version's.
                    moved = dispatch_context.moved(route) if submit is self._submit else route
                    if moved is route:
                        if not self._awaits_member(route, submit, history, failure, until):
                            raise
                        return
                    route = self.route = moved
                    decision = dispatch_context.choose(route, history.tried, failure)
            kind = Attempt if decision.prefill is None else PairAttempt
            attempt = kind(self, route, decision, submit, history)
            try:
                attempt.open(dispatch_context.fleet, kv_tokens)
            except ReplicaUnavailable as error:
                history, failure, decision = history.without(attempt.replica_id), error, None
                continue
            self._enter(attempt)
            return

    def _awaits_member(
        self,
        route: RouteRequest,
        submit: Submit,
        history: History,
        failure: PenstockError | None,
        until: float | None,
        most: float = MEMBER_SECONDS,
    ) -> bool:
        """Whether a submit waits for members of a host group, for `most` seconds; it is placed once they serve."""
        dispatch_context = self._dispatch_context
        fleet, now = dispatch_context.fleet, dispatch_context.clock()
        last = min(now + MEMBER_SECONDS, route.deadline) if until is None else until
        if failure is None or now >= last or not fleet.awaits_member:
            return False

        def again() -> None:
            # Closed or failed meanwhile, or the sequence's reader has had enough.
            if self._overflow is not None and not (submit is not self._submit and submit.sequence in self._over):
                # Whoever was tried may be another replica by now.
                anew = msgspec.structs.replace(history, tried=())
                placed = msgspec.structs.replace(route, now=dispatch_context.clock())
                self._guarded(lambda: self._place(placed, submit, anew, failure, None, last))

        fleet.awaited.add(again, min(last - now, most))
        return True

    def _is_spread(self, history: History) -> bool:
        """Whether what the lost replica had is to be spread over members that are about to serve."""
        return bool(history.tried) and self._dispatch_context.fleet.awaited.returning(history.tried[-1])

    def _kv_tokens(self, route: RouteRequest, submit: Submit) -> int | None:
        """Return the KV tokens that the submit is expected to fill; None: unknown."""
        if self._admission is None:
            return None
        if submit is self._submit:
            return self._admission.kv_tokens
        return route.prompt_tokens + route.n * ceil(route.expected_output)

    def _enter(self, attempt: Attempt) -> None:
        self._attempts.append(attempt)
        self.decision = attempt.decision
        self._dispatch_context.routed(attempt)

    def _leave(self, attempt: Attempt, error: PenstockError | None = None) -> None:
        self._attempts.remove(attempt)
        attempt.close()
        self._dispatch_context.ended(attempt, error)

    def _end(self, error: PenstockError | None) -> None:
        self._overflow = None  # as `Inbox.close`
        self.begin_again = None
        while self._attempts:
            self._leave(self._attempts[-1], error)
