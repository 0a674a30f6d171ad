"""The failover stream of a model with hedging: a request that is slow to start gets a second attempt."""

import asyncio

import msgspec

from protos.errors import PenstockError, ReplicaUnavailable
from protos.types import Finish
from routing.contracts.transport import Relay
from routing.dispatch.attempt import Attempt
from routing.dispatch.failover_stream import LEAST_SECONDS, FailoverStream
from routing.dispatch.hedging import race, settle


class HedgedStream(FailoverStream):
    """A failover stream with a timer until the first token, and a race between two attempts after it."""

    _timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Send the request and set the timer, where hedging applies to it. Raises ReplicaUnavailable."""
        super().begin()
        hedging = self._dispatch_context.hedging
        for attempt in self._attempts:
            if hedging is not None and hedging.applies(attempt.route, attempt.decision):
                self._timer = asyncio.get_running_loop().call_later(hedging.after_ms * 1e-3, self._race, attempt)

    def started(self, attempt: Attempt) -> None:
        self._decide(attempt)
        self._cancel_timer()
        super().started(attempt)

    def relayed(self, attempt: Attempt, relay: Relay) -> None:
        """The answer is relayed as bytes, which cannot go on elsewhere."""
        self._decide(attempt)
        super().relayed(attempt, relay)

    def finished(self, attempt: Attempt, index: int, finish: Finish) -> None:
        self._decide(attempt)
        super().finished(attempt, index, finish)

    def lost(self, attempt: Attempt, error: PenstockError) -> None:
        """Go on with the rival, if there is one."""
        rival = settle(attempt)
        if rival is None:
            self._cancel_timer()
            super().lost(attempt, error)
        else:
            self._leave(attempt, error)
            self.decision = rival.decision

    def _race(self, attempt: Attempt) -> None:
        """Send a second attempt after a while without a token, if the budget and another replica allow it."""
        self._timer = None
        dispatch_context, history = self._dispatch_context, attempt.history.without(attempt.replica_id)
        now = dispatch_context.clock()
        if attempt.tokens or attempt.route.deadline - now < LEAST_SECONDS:
            return
        route = msgspec.structs.replace(attempt.route, now=now)
        try:
            decision = dispatch_context.choose(route, history.tried, None, whole=True)
            if not dispatch_context.budget.take():
                return
            rival = Attempt(self, route, decision, attempt.submit, history)
            rival.open(dispatch_context.fleet, self._kv_tokens(route, attempt.submit))
        except ReplicaUnavailable:
            return
        self.hedges += 1
        self._enter(rival)
        race(attempt, rival, self._decide)

    def _decide(self, attempt: Attempt) -> None:
        """End the race, if there is one: this attempt answered first."""
        rival = settle(attempt)
        if rival is not None:
            self._leave(rival)
            self.decision = attempt.decision

    def _end(self, error: PenstockError | None) -> None:
        self._cancel_timer()
        super()._end(error)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
