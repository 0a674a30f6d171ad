"""The endpoints of a model that only compute prompts, for others that decode.

The convention is llm-d's: the proxy sends the request to a pod that decodes, and a header of it names the pod whose KV
cache that one shall fetch first. Without the header the pod that decodes computes the prompt itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from protos.errors import PenstockError, ReplicaUnavailable
from protos.types import Finish, FinishReason, Submit
from routing.contracts.policy import Decision, NoCandidate, ReplicaView, RouteRequest, RoutingPolicy
from routing.contracts.transport import Event, Relay
from routing.dispatch.attempt import Attempt
from routing.dispatch.dispatch_context import DispatchContext
from routing.dispatch.migration import History
from routing.fleet.fleet import Fleet
from routing.policies.phases import LOCAL_TOKENS
from routing.prefix.prefix_directory import PrefixDirectory
from routing.transports.openai.picked_connection import PickedAnswer
from routing.transports.replica_spec import ReplicaSpec

#: Version and revision of an endpoint, as far as they are known.
Revision = tuple[str, str]

_NO_HISTORY = History()


def revision_of(spec: ReplicaSpec) -> Revision:
    """The version and revision that two endpoints must share, so that one can read the other's KV cache."""
    return spec.version, spec.revision


class PrefillSide:
    """A fleet of its own: what computes prompts is chosen after what decodes, by another one of the model's policy."""

    def __init__(self, policy: RoutingPolicy, make_fleet: Callable[[PrefixDirectory | None], Fleet]) -> None:
        """`make_fleet` makes one without replicas, of the model, that follows the caches by a directory."""
        self._policy = policy
        self.prefixes = PrefixDirectory() if policy.uses_prefixes else None
        self.fleet = make_fleet(self.prefixes)
        self._context = DispatchContext(self.fleet, policy)
        self._revisions: Mapping[str, Revision] = {}
        #: Prompts that were sent here.
        self.requests = 0

    def set_replicas(self, specs: Iterable[ReplicaSpec]) -> None:
        """Replace the fleet's replicas."""
        wanted = list(specs)
        self._revisions = {spec.id: revision_of(spec) for spec in wanted}
        self.fleet.set_replicas(wanted)

    def choose(
        self,
        route: RouteRequest,
        cached: int,
        revision: Revision,
        inside: Callable[[Sequence[ReplicaView]], Sequence[ReplicaView]],
    ) -> Decision | None:
        """Choose who computes a prompt; None: who decodes it.

        That one is of `revision`, whose KV caches alone it can read, and holds `cached` tokens. `inside` leaves those
        that the request may use.
        """
        # A shorter rest is computed sooner than two requests and a transfer take.
        if not self.fleet.ready_ids or route.prompt_tokens - cached < LOCAL_TOKENS:
            return None
        views = [view for view in self.fleet.candidates() if self._revisions.get(view.id) == revision]
        views = list(inside(views))
        if not views:
            return None
        known = msgspec.structs.replace(route, cached=self._context.cached(route), may_wait=False)
        try:
            return self._policy.pick(known, views)
        except NoCandidate:
            return None

    def begin(self, route: RouteRequest, decision: Decision, submit: Submit) -> "Prefill | None":
        """Count a prompt where it is computed; None where that has been lost since."""
        cached = self._context.cached(route)
        prefill = Prefill(self._context, msgspec.structs.replace(route, cached=cached), decision, submit)
        try:
            prefill.open()
        except ReplicaUnavailable:
            return None
        self.requests += 1
        return prefill


class Prefill:
    """A prompt that is being computed, the `Owner` of its attempt. It counts until `done` or `close`, or a loss."""

    failed = False

    def __init__(self, context: DispatchContext, route: RouteRequest, decision: Decision, submit: Submit) -> None:
        self._context = context
        self._attempt: Attempt | None = Attempt(self, route, decision, submit, _NO_HISTORY)
        self._answer: PickedAnswer | None = None
        self.replica_id = decision.replica.id
        self.tokens: list[list[int]] = []

    def open(self) -> None:
        """Count it. Raises ReplicaUnavailable."""
        attempt = self._attempt
        assert attempt is not None, "it has just been made"
        # No KV cache of its answer.
        attempt.open(self._context.fleet, attempt.route.prompt_tokens)
        self._context.routed(attempt)

    def done(self) -> None:
        """Note that the prompt has been computed, as the answer has begun."""
        if self._attempt is not None and self._answer is not None:
            self._answer.begins()
            self._answer.ends(FinishReason.STOP)
        self.close()

    def close(self) -> None:
        """End it, if it has not ended. Idempotent."""
        self._end(None)

    def put(self, event: Event) -> None:
        """Take no tokens: there are none."""

    def opened(self, attempt: Attempt) -> None:
        """Nothing more: the request is admitted where it is decoded."""

    def started(self, attempt: Attempt) -> None:
        """Nothing more."""

    def relayed(self, attempt: Attempt, relay: Relay) -> None:
        assert isinstance(relay, PickedAnswer), "the transport of endpoints makes no other"
        self._answer = relay

    def finished(self, attempt: Attempt, index: int, finish: Finish) -> None:
        if not attempt.left:
            self._end(None)

    def parted(self, attempt: Attempt) -> None:
        self._end(None)

    def lost(self, attempt: Attempt, error: PenstockError) -> None:
        self._end(error)

    def _end(self, error: PenstockError | None) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.close()
            self._context.ended(attempt, error)
