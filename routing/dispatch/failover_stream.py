"""The answer to one request as one unbroken stream, whatever replicas it takes.

A small state machine: attempts (routing/dispatch/attempt.py) tell it what happens to them, from whoever reads the wire,
and it decides at once, without tasks of its own. Tokens do not pass through it but go from the wire to its inbox.
"""

import asyncio
import logging
from collections.abc import Callable
from copy import copy
from math import ceil
from typing import Final, Protocol

import msgspec

from observability.logs import RateLimit
from protos.errors import InternalError, PenstockError, ReplicaUnavailable
from protos.types import Finish, FinishReason, Submit
from routing.contracts.policy import Decision, RouteRequest
from routing.contracts.transport import Relay
from routing.dispatch.attempt import Trip
from routing.dispatch.disaggregated import PairTrip
from routing.dispatch.dispatch_context import Desk
from routing.dispatch.hedging import race, settle
from routing.dispatch.migration import History, after_loss, continuation, rest_of
from routing.transports.inbox import Inbox

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=20))

#: With less time than this until its deadline, in seconds, a request without a token is not tried again.
LEAST_SECONDS: Final = 0.05
_NO_HISTORY: Final = History()


class Turn(Protocol):
    """Leave to run that was given for a decision; told what becomes of the request."""

    @property
    def decision(self) -> Decision | None:
        """Where the first attempt goes; None: wherever the policy says."""
        ...

    @property
    def kv_tokens(self) -> int:
        """What the request is expected to fill of the KV cache."""
        ...

    def opened(self, replica_id: str, *, computes: bool) -> None:
        """The request is on its way to that replica, and counts in its view. Called once per submit.

        `computes`: its prompt is computed there, and not handed over.
        """
        ...

    def started(self) -> None:
        """The prompt has been computed."""
        ...


class Journey:
    """The `TokenStream` of a request and the `Owner` of its trips. `cached_tokens` are the first replica's."""

    __slots__ = (
        "_desk",
        "_over",
        "_started",
        "_submit",
        "_timer",
        "_trips",
        "_turn",
        "cached_tokens",
        "counts",
        "decision",
        "hedges",
        "inbox",
        "migrations",
        "receive",
        "relay",
        "retries",
        "route",
    )

    def __init__(self, desk: Desk, route: RouteRequest, submit: Submit, turn: Turn | None) -> None:
        """The submit's first sequence is number 0."""
        self.route = route
        self.cached_tokens = 0
        #: Where the answer's bytes are read, if it is not one of tokens.
        self.relay: Relay | None = None
        #: What its upstream says of a relayed answer as a whole, once it has ended.
        self.counts: Finish | None = None
        #: Submits beyond the first: in place of one that came to nothing, of one that had begun, and beside a slow one.
        self.retries = self.migrations = self.hedges = 0
        #: The last one followed.
        self.decision: Decision | None = None
        self.inbox = Inbox(submit.sampling.n, self.fail, asyncio.get_running_loop())
        #: As TokenStream has it. The inbox's own: a method in between would be one call more per token.
        self.receive = self.inbox.receive
        self._desk = desk
        self._submit = submit
        self._turn = turn
        self._trips: list[Trip] = []
        self._over: set[int] = set()
        self._started = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def tokens(self) -> list[list[int]]:
        """All tokens that came so far, by sequence."""
        return self.inbox.tokens

    @property
    def replica_id(self) -> str:
        """Where it is answered now, or was last."""
        return self.decision.replica.id if self.decision is not None else ""

    @property
    def failed(self) -> bool:
        """Whether `receive` raises from now on."""
        return self.inbox.failed

    def begin(self) -> None:
        """Send the request where its turn was given, if that is still there, else where the policy says.

        Raises ReplicaUnavailable when there is nowhere.
        """
        decision = self._turn.decision if self._turn is not None else None
        trip = self._place(self.route, self._submit, _NO_HISTORY, None, decision)
        hedging = self._desk.hedging
        if hedging is not None and hedging.applies(trip.route, trip.decision):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(hedging.after_ms * 1e-3, self._hedge, trip)

    def dismiss(self, index: int) -> None:
        """Nobody needs more of that sequence: it is not to go on elsewhere."""
        self._over.add(index)

    def fail(self, error: PenstockError) -> None:
        """End it from this side; the engine is told to stop, and `receive` raises `error`. The first error counts."""
        if not self.inbox.failed:
            self.inbox.fail(error)
            self._end(error)

    def close(self) -> None:
        """The one ending: cancels upstream what has not finished. Idempotent, never waits."""
        self._end(None)

    def opened(self, trip: Trip) -> None:
        """A submit is on its way."""
        if self._turn is not None:
            self._turn.opened(trip.replica_id, computes=trip.replica_id == trip.decision.entry.id)

    def started(self, trip: Trip) -> None:
        """A prompt has been computed."""
        if trip.rival is not None:
            self._won(trip)
        self._no_timer()
        self._desk.started(trip)
        if self._turn is not None:
            self._turn.started()
        if not self._started:
            self._started = True
            self.cached_tokens = trip.cached_tokens

    def relayed(self, trip: Trip, relay: Relay) -> None:
        """The answer comes as bytes: what has come of it cannot go on elsewhere."""
        if trip.rival is not None:
            self._won(trip)
        self.relay = relay
        self.inbox.put((trip.sequence, (), None, None))

    def check(self) -> None:
        """Raises what has ended it, if that was an error: a relay that is read to its end may have been cut there."""
        self.inbox.check()

    def finished(self, trip: Trip, index: int, finish: Finish) -> None:
        """A sequence is over."""
        if trip.rival is not None:
            self._won(trip)
        self._over.add(index)
        if trip.relay is not None and index == trip.sequence:
            self.counts = finish
        if not trip.left:
            self._leave(trip)
        self.inbox.put((index, (), None, finish))

    def parted(self, trip: Trip) -> None:
        """What has not finished goes on, each sequence by itself."""
        self._leave(trip)
        self._guarded(lambda: self._go_on(trip, trip.history, None))

    def lost(self, trip: Trip, error: PenstockError) -> None:
        """A trip came to nothing: what has not finished goes on elsewhere, or the stream ends with the error."""
        rival = settle(trip)
        self._leave(trip, error)
        if rival is not None:
            self.decision = rival.decision
        else:
            self._no_timer()
            # All streams of a replica are given one error; raised for each of them it would hold on to all of them.
            own = copy(error)
            self._guarded(lambda: self._after(trip, own))

    def _guarded(self, move: Callable[[], None]) -> None:
        """Whatever happens in a session's own task must not end the session, nor leave the reader waiting."""
        try:
            move()
        except PenstockError as error:
            self.fail(error)
        except Exception:
            log.exception("request %s cannot go on", self.route.request_id)
            self.fail(InternalError("The gateway failed on this request."))

    def _after(self, trip: Trip, error: PenstockError) -> None:
        tokens = trip.tokens
        progressed = tokens > trip.tokens_before or trip.started_at is not None
        history = after_loss(trip.history, trip.replica_id, error, tokens, progressed=progressed)
        untouched = not tokens and self._over.isdisjoint(trip.indices)
        if history is None or trip.relay is not None or (trip.submit.guide is not None and not untouched):
            raise error
        log.warning(
            "request %s: replica %s failed %s: %s",
            trip.route.request_id,
            trip.replica_id,
            "before its first token" if untouched else f"after {tokens} tokens",
            error.detail or error.message,
        )
        if untouched:
            self._retry(trip, history, error)
        else:
            self._go_on(trip, history, error)

    def _retry(self, trip: Trip, history: History, error: PenstockError) -> None:
        """The same once more. Raises `error` when that is not to be."""
        desk = self._desk
        now = desk.clock()
        if trip.route.deadline - now < LEAST_SECONDS or not desk.budget.take():
            raise error
        self.retries += 1
        self._place(msgspec.structs.replace(trip.route, now=now), trip.submit, history, error)

    def _go_on(self, trip: Trip, history: History, error: PenstockError | None) -> None:
        """Each of its sequences that has not ended goes on from the tokens that it has. Raises `error` if it cannot."""
        desk, inbox, submit = self._desk, self.inbox, self._submit
        now, cached, before = desk.clock(), desk.cached(self.route), trip.tokens
        for index in trip.indices:
            tokens = inbox.tokens[index]
            if index in self._over:
                continue
            if len(tokens) >= submit.max_tokens:  # only its end had not come yet
                self._over.add(index)
                inbox.put((index, (), None, Finish(FinishReason.LENGTH, len(submit.prompt_ids), 0, len(tokens))))
                continue
            route = rest_of(self.route, len(tokens), cached, now)
            own = history if trip.sequences == 1 else history.of_one(len(tokens), before)
            self.migrations += 1
            self._place(route, continuation(submit, index, tokens), own, error)

    def _place(
        self,
        route: RouteRequest,
        submit: Submit,
        history: History,
        failure: PenstockError | None,
        decision: Decision | None = None,
    ) -> Trip:
        """Send a submit where `decision` or the policy says. Raises `failure`, if there was one, when nothing takes it,
        else ReplicaUnavailable.
        """
        desk = self._desk
        while True:
            if decision is None or not desk.takes(decision):
                decision = desk.choose(route, history.tried, failure)
            kind = Trip if decision.prefill is None else PairTrip
            trip = kind(self, route, decision, submit, history)
            try:
                trip.open(desk.fleet, self._kv_tokens(route, submit))
            except ReplicaUnavailable as error:
                history, failure, decision = history.without(trip.replica_id), error, None
                continue
            self._enter(trip)
            return trip

    def _kv_tokens(self, route: RouteRequest, submit: Submit) -> int | None:
        """What the submit is expected to fill of the KV cache; None: nobody has said what to expect."""
        if self._turn is None:
            return None
        if submit is self._submit:
            return self._turn.kv_tokens
        return route.prompt_tokens + route.n * ceil(route.expected_output)

    def _hedge(self, trip: Trip) -> None:
        """No token came for a while: ask another replica too, if there is one and the budget has it."""
        self._timer = None
        desk, history = self._desk, trip.history.without(trip.replica_id)
        now = desk.clock()
        if trip.tokens or trip.route.deadline - now < LEAST_SECONDS:
            return
        route = msgspec.structs.replace(trip.route, now=now)
        try:
            decision = desk.choose(route, history.tried, None, whole=True)
            if not desk.budget.take():
                return
            rival = Trip(self, route, decision, trip.submit, history)
            rival.open(desk.fleet, self._kv_tokens(route, trip.submit))
        except ReplicaUnavailable:
            return
        self.hedges += 1
        self._enter(rival)
        race(trip, rival, self._won)

    def _won(self, trip: Trip) -> None:
        """It was the first of rivals to answer."""
        rival = settle(trip)
        if rival is not None:
            self._leave(rival)
        self.decision = trip.decision

    def _enter(self, trip: Trip) -> None:
        self._trips.append(trip)
        self.decision = trip.decision
        self._desk.routed(trip)

    def _leave(self, trip: Trip, error: PenstockError | None = None) -> None:
        self._trips.remove(trip)
        trip.close()
        self._desk.ended(trip, error)

    def _end(self, error: PenstockError | None) -> None:
        self._no_timer()
        self.inbox.close()
        while self._trips:
            self._leave(self._trips[-1], error)

    def _no_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
