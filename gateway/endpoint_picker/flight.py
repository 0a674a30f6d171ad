"""A request at the endpoint that it was sent to, with exactly one ending, whatever becomes of it."""

from collections.abc import Sequence

import msgspec

from gateway.endpoint_picker.picked_model import PickedModel
from gateway.endpoint_picker.prefill_side import Prefill
from gateway.scheduling.admission import Admission
from protos.errors import PenstockError, ReplicaFailed, ReplicaUnavailable, UpstreamRateLimited
from protos.token_counts import TokenCounts
from protos.types import Finish, FinishReason, Role, Submit
from routing.contracts.policy import Decision, ReplicaView
from routing.contracts.transport import Event, Relay
from routing.dispatch.attempt import Attempt
from routing.dispatch.migration import History
from routing.estimates.decode_length import Origin
from routing.transports.openai.picked_connection import PickedAnswer

_NO_HISTORY = History()


class Flight:
    """The `Owner` of the attempt. It counts at the endpoint, in the policy and in the queue until `close`."""

    failed = False

    def __init__(self, model: PickedModel, admission: Admission, submit: Submit) -> None:
        self._model = model
        self._admission = admission
        self._submit = submit
        self._attempt: Attempt | None = None
        self._answer: PickedAnswer | None = None
        self._prefill: Prefill | None = None
        #: The endpoint that was told to compute its prompt; empty: the one that answers.
        self.prefilled_at = ""
        self._closed = False
        self._counts: TokenCounts | None = None
        self._seen = 0
        self.tokens: list[list[int]] = []

    @property
    def replica_id(self) -> str:
        """The endpoint that it counts at; empty once it counts nowhere."""
        return "" if self._attempt is None else self._attempt.replica_id

    def begin(self, decision: Decision, prefiller: Decision | None = None) -> None:
        """Count the request where the proxy sends it, its prompt at the `prefiller`. Raises ReplicaUnavailable."""
        route = self._admission.route
        if prefiller is not None:
            self._prefill = self._model.prefill.begin(route, prefiller, self._submit)
            self.prefilled_at = "" if self._prefill is None else self._prefill.replica_id
        if self.prefilled_at:
            # It has all of the prompt, once the other one has computed it.
            route = msgspec.structs.replace(route, cached={**route.cached, decision.replica.id: route.prompt_tokens})
        attempt = Attempt(self, route, decision, self._submit, _NO_HISTORY)
        attempt.open(self._model.fleet, self._admission.kv_tokens)
        self._attempt = attempt
        self._model.dispatch_context.routed(attempt)

    def served(self, endpoint: str) -> None:
        """Note the endpoint that has answered: the proxy may have had to take another than the first."""
        attempt = self._attempt
        if attempt is None or not endpoint or self._model.endpoints.get(attempt.replica_id) == endpoint:
            return
        self._end(ReplicaUnavailable("The proxy went on to another endpoint."))
        view = next((view for view in self._views() if self._model.endpoints.get(view.id) == endpoint), None)
        if view is not None and not self._closed:
            try:
                self.begin(Decision(view, None, "taken by the proxy"))
            except ReplicaUnavailable:
                self._attempt = None

    def begins(self) -> None:
        """Note that the answer has begun to come."""
        attempt, answer = self._attempt, self._answer
        if attempt is not None and attempt.started_at is None and answer is not None:
            attempt.started_at = self._model.dispatch_context.clock()
            if self.prefilled_at:
                # What came before says nothing of this endpoint.
                attempt.routed_at, attempt.cached_tokens = attempt.started_at, attempt.route.prompt_tokens
            if self._prefill is not None:
                self._prefill.done()
            answer.begins()
            self._admission.started()

    def heard(self, seen: int, counts: TokenCounts | None) -> None:
        """Note the tokens so far, about, and the engine's own counts, once they have come."""
        self._seen, self._counts = seen, counts
        if self._answer is not None:
            told = counts.completion if counts is not None else None
            self._answer.seen, self._answer.counts = seen if told is None else told, counts

    def ends(self, status: int) -> None:
        """Note that the answer is complete; `status` is HTTP's."""
        error = _error_of(status)
        if error is not None:
            self._end(error)
        elif self._answer is not None and self._attempt is not None:
            self._learn(self._attempt)
            self._answer.ends(FinishReason.STOP)
        self.close()

    def close(self) -> None:
        """End whatever has not ended. Idempotent."""
        if not self._closed:
            self._closed = True
            self._end(None)
            if self._prefill is not None:
                self._prefill.close()
            told = self._counts.completion if self._counts is not None else None
            self._admission.release(self._seen if told is None else told)

    def put(self, event: Event) -> None:
        """Take no tokens: the proxy has them."""

    def opened(self, attempt: Attempt) -> None:
        self._admission.opened(attempt.replica_id)

    def started(self, attempt: Attempt) -> None:
        """Nothing more: `begins` has noted it."""

    def relayed(self, attempt: Attempt, relay: Relay) -> None:
        assert isinstance(relay, PickedAnswer), "the transport of endpoints makes no other"
        self._answer = relay

    def finished(self, attempt: Attempt, index: int, finish: Finish) -> None:
        if not attempt.left:
            self._attempt = None
            attempt.close()
            self._model.dispatch_context.ended(attempt, None)

    def parted(self, attempt: Attempt) -> None:
        self._end(None)

    def lost(self, attempt: Attempt, error: PenstockError) -> None:
        """The endpoint is gone from the fleet; the proxy may still read from it, which counts nowhere."""
        self._end(error)

    def _end(self, error: PenstockError | None) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.close()
            self._model.dispatch_context.ended(attempt, error)

    def _learn(self, attempt: Attempt) -> None:
        """Learn the answer's length, and whether its prefix was where it was expected."""
        counts, route = self._counts, attempt.route
        if counts is None:
            return
        origin = Origin(self._model.name)
        if counts.completion:
            self._model.lengths.learn(origin, route.prompt_tokens, counts.completion // route.n)
        if counts.cached:
            self._model.tell_cached.add(attempt.replica_id)
        # Of an engine that has never told any, nothing says that it found none.
        tells = attempt.replica_id in self._model.tell_cached
        if tells and counts.prompt and not self.prefilled_at and self._model.prefixes is not None and route.chain:
            cached = min(route.prompt_tokens, round(counts.cached * route.prompt_tokens / counts.prompt))
            attempt.cached_tokens = cached
            self._model.prefixes.record_cached(attempt.replica_id, route.cached.get(attempt.replica_id, 0), cached)

    def _views(self) -> Sequence[ReplicaView]:
        return [view for view in self._model.fleet.candidates() if view.role is Role.BOTH]


def _error_of(status: int) -> PenstockError | None:
    """Return what a status says against the endpoint; None: nothing."""
    if status == 429:
        return UpstreamRateLimited("The endpoint has too much to do.")
    if status == 503:
        return ReplicaUnavailable("The endpoint is not available.")
    if status >= 500:
        return ReplicaFailed("The endpoint failed.")
    return None
