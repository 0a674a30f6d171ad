"""An attempt on a pair: one replica computes the prompt and the first token, another decodes from its KV cache.

Order and cancellation follow TensorRT-LLM's disaggregated serving: the prefill may be cancelled at any time. After the
handoff, cancelling the decode side would strand the transfer of the KV cache, so the cancel waits for the first token.
"""

import asyncio
from typing import Final

import msgspec

from protos.errors import PenstockError, ReplicaFailed, ReplicaUnavailable
from protos.types import Finish, FinishReason, Handoff, Timing
from routing.contracts.transport import Event, Leg, Relay
from routing.dispatch.attempt import Attempt, error_of
from routing.fleet.fleet import Fleet

#: Timeouts of each side in seconds: prefill for queue and prompt, decode until its first token. Health checks find
#: replicas that are dead or stuck; these bound what health checks cannot see, so they are generous.
PREFILL_SECONDS: Final = 120.0
TRANSFER_SECONDS: Final = 30.0
#: Seconds after which an abandoned transfer is cancelled, stranded or not.
ORPHAN_SECONDS: Final = 60.0


class PairAttempt(Attempt):
    """An attempt that runs on the decision's prefill replica first, then on its decode replica.

    The prefill side's first tokens go to the reader at once; the decode side does not repeat them.
    """

    def open(self, fleet: Fleet, kv_tokens: int | None) -> None:
        """Send the prompt to the prefill replica. Raises ReplicaUnavailable."""
        self._fleet, self._kv_tokens = fleet, kv_tokens
        #: The prefill side's finishes of sequences that go on.
        self._prefilled: dict[int, Finish] = {}
        #: Number of tokens when the decode side took over; None before.
        self._handed_over: int | None = None
        self._arrived = False
        self._alarm: asyncio.TimerHandle | None = None
        route, submit = self.route, msgspec.structs.replace(self.submit, prefill_only=True)
        to_compute = route.prompt_tokens - route.cached.get(self.replica_id, 0)
        self.leg = fleet.open(self.replica_id, submit, route.prompt_tokens + self.sequences, to_compute, self)
        self.owner.opened(self)
        self._set_alarm(PREFILL_SECONDS)

    def started(self, cached_tokens: int) -> None:
        """The prompt has been computed (prefill side), or its KV cache has arrived (decode side)."""
        if self._handed_over is None:
            super().started(cached_tokens)
        else:
            self._arrived = True

    def finished(self, index: int, finish: Finish) -> None:
        """A sequence has ended on one side; it may go on at the other."""
        if self._handed_over is not None:
            self._arrived = True
            super().finished(index, self._joined(index, finish))
            return
        error = error_of(finish)
        if error is not None:
            self.lost(error)
            return
        if finish.reason is FinishReason.LENGTH and finish.handoff is not None and self.submit.max_tokens > 1:
            self._prefilled[index] = finish
        else:
            super().finished(index, finish)
        if self._prefilled and len(self._prefilled) == self.left:
            self._prefill_done()

    def _joined(self, index: int, finish: Finish) -> Finish:
        """Return the end with both sides' figures; waiting for the KV cache counts as queueing."""
        if error_of(finish) is not None:
            return finish
        first, timing = self._prefilled[index], finish.timing
        waited = timing.queue_us + timing.prefill_us
        joined = Timing(first.timing.queue_us + waited, first.timing.prefill_us, timing.decode_us)
        counts = first.prompt_tokens, first.cached_tokens, finish.completion_tokens
        return Finish(finish.reason, *counts, joined, prompt_logprobs=first.prompt_logprobs)

    def close(self) -> None:
        """Cancel upstream what has not finished: now where that is safe, else as soon as it is."""
        self._cancel_alarm()
        leg = self.leg
        if leg is None or leg.closed:
            return
        if self._handed_over is None or self._has_arrived():
            leg.close()
        else:
            Orphan(leg)

    def _prefill_done(self) -> None:
        """Hand over once all sequences have ended on the prefill side: a handoff covers all of them or none."""
        self._cancel_alarm()
        if self.leg is not None:
            self.leg.close()
        handoff = next(iter(self._prefilled.values())).handoff
        if handoff is None or len(self._prefilled) < self.sequences:
            self.owner.parted(self)
        elif not self._give_first_tokens(handoff):
            self.lost(ReplicaFailed("The model's engine gave no first token."))
        elif not self.owner.failed:
            self._hand_over(handoff)

    def _give_first_tokens(self, handoff: Handoff) -> bool:
        """Deliver the first tokens, unless the prefill side has; return whether there are any."""
        owner = self.owner
        for position, index in enumerate(self.indices):
            if len(owner.tokens[index]) == self.submit.generated:
                if position >= len(handoff.first_tokens):
                    return False
                owner.put((index, (handoff.first_tokens[position],), None, None))
        return True

    def _hand_over(self, handoff: Handoff) -> None:
        self.replica_id = self.decision.replica.id
        self._handed_over = self.tokens
        submit = msgspec.structs.replace(self.submit, handoff=handoff)
        try:
            self.leg = self._fleet.open(self.replica_id, submit, self._kv_tokens, 0, self)
        except ReplicaUnavailable as error:
            self.lost(error)
            return
        self.owner.opened(self)
        self._set_alarm(TRANSFER_SECONDS)

    def _has_arrived(self) -> bool:
        """Whether the decode side has the KV cache, as any event of it shows."""
        return self._arrived or (self._handed_over is not None and self.tokens > self._handed_over)

    def _set_alarm(self, seconds: float) -> None:
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._timed_out)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _timed_out(self) -> None:
        if self._handed_over is None:
            self.lost(ReplicaUnavailable("The replica did not compute the prompt in time."))
        elif not self._has_arrived():
            self.lost(ReplicaUnavailable("The replica did not take over the request in time."))


class Orphan:
    """The `Receiver` and `Sink` of an abandoned decode leg: cancels it once its KV cache has arrived."""

    __slots__ = ("_alarm", "_leg", "sequence")

    def __init__(self, leg: Leg) -> None:
        self.sequence = 0
        self._leg = leg
        self._alarm = asyncio.get_running_loop().call_later(ORPHAN_SECONDS, self._end)
        leg.sink = leg.receiver = self

    @property
    def most_tokens(self) -> int:
        """None that anybody waits for."""
        return 0

    @property
    def sink(self) -> "Orphan":
        """This object: tokens only signal that the KV cache has arrived."""
        return self

    def put(self, event: Event) -> None:
        """Cancel: the first token shows that the KV cache has arrived."""
        del event
        self._end()

    def started(self, cached_tokens: int) -> None:
        """Cancel: the KV cache has arrived."""
        del cached_tokens
        self._end()

    def relayed(self, relay: Relay) -> None:
        """Cancel; no decode replica relays bytes."""
        del relay
        self._end()

    def finished(self, index: int, finish: Finish) -> None:
        """Cancel: a sequence has ended."""
        del index, finish
        self._end()

    def lost(self, error: PenstockError) -> None:
        """Close the leg: nothing is left to cancel."""
        del error
        self._end()

    def _end(self) -> None:
        self._alarm.cancel()
        self._leg.close()
