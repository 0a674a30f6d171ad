"""Picks endpoints for requests: within the proxy's subset, as there is room, the best first and then others."""

import contextlib
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from gateway.endpoint_picker.asked import Asked
from gateway.endpoint_picker.flight import Flight
from gateway.endpoint_picker.picked_model import PickedModel
from gateway.endpoint_picker.within import Within
from gateway.models.media_rules import UNSEEN_IMAGE
from gateway.scheduling.admission import Admission, AdmissionRequest
from protos.errors import ReplicaUnavailable
from protos.types import Sampling, Submit
from routing.contracts.policy import Decision, NoCandidate, ReplicaView, RouteRequest
from routing.dispatch.dispatch import RequestHandle
from routing.estimates.decode_length import Origin

#: Endpoints that a proxy is told, the first choice included.
MOST_ENDPOINTS: Final = 3
#: Candidates for the places after the first; a few of a large fleet are good enough there.
_MOST_SCORED: Final = 32
#: Characters of a proxy's request id that are kept.
_LONGEST_ID: Final = 64
#: The name under which all requests stand in the queue; a proxy tells nothing of tenants that could be trusted.
_EVERYBODY: Final = "everybody"
#: Seconds that a request waits for room at most, and how many may.
WAIT_SECONDS: Final = 30.0
MOST_WAITING: Final = 4096


class Picked(msgspec.Struct, frozen=True):
    """Where a request shall go, `IP:PORT` each, the best first, and its flight, which the holder must close.

    `prefiller` is the endpoint that computes its prompt; empty: the one that answers.
    """

    endpoints: Sequence[str]
    flight: Flight
    prefiller: str = ""


class Picker:
    """Picks for all models. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock

    async def pick(self, model: PickedModel, asked: Asked, subset: Sequence[str] | None, request_id: str) -> Picked:
        """Pick for a request, once there is room; `subset` are the endpoints that it may go to, None: all.

        Raises:
            ReplicaUnavailable: No endpoint that it may go to takes requests.
            Overloaded: There was no room for as long as it may wait, or too many wait.
        """
        # Clients may send one id with several requests, and policies tell requests apart by theirs.
        request_id = f"{request_id[:_LONGEST_ID] or 'epp'}-{secrets.token_hex(8)}"
        policy = None
        if subset is not None:
            policy = Within(model.policy, frozenset(subset), model.endpoints)
        route = self._route(model, asked, request_id)
        self._check(model, policy)
        wanted = AdmissionRequest(
            request_id,
            _EVERYBODY,
            0,
            1.0,
            0.0,
            route,
            round(route.expected_output * route.n),
            route.n,
            route.arrived + WAIT_SECONDS,
            MOST_WAITING,
            policy,
        )
        admission = model.queue.try_enter(wanted)
        if admission is None:
            admission = await model.queue.enter(wanted, RequestHandle())
        return self._sent(model, asked, admission, policy)

    def _route(self, model: PickedModel, asked: Asked, request_id: str) -> RouteRequest:
        prefix = model.dispatch_context.look_up(asked.prompt, asked.salt)
        tokens = max(1, len(asked.prompt) + asked.media * model.media.image(*UNSEEN_IMAGE, False))
        room = max(1, model.context - tokens)
        bound = room if asked.max_tokens is None else min(asked.max_tokens, room)
        now = self._clock()
        return RouteRequest(
            request_id,
            tokens,
            bound,
            asked.n,
            model.lengths.expected(Origin(model.name), tokens, bound),
            prefix.cached,
            prefix.chain,
            now,
            now,
            may_wait=True,
        )

    def _check(self, model: PickedModel, policy: Within | None) -> None:
        """Raise ReplicaUnavailable where no endpoint could take the request however long it waited."""
        views = model.fleet.candidates()
        if policy is not None:
            views = policy.inside(views)
        if not views:
            raise ReplicaUnavailable("No endpoint of this model can take the request now.")

    def _sent(self, model: PickedModel, asked: Asked, admission: Admission, policy: Within | None) -> Picked:
        submit = Submit(admission.request.request_id, asked.prompt, admission.route.max_tokens, Sampling(n=asked.n))
        flight = Flight(model, admission, submit)
        try:
            decision = self._decision(model, admission, policy)
            # Before the request counts itself.
            others = self._others(model, admission.route, decision.replica.id, policy)
            inside = policy.inside if policy is not None else list
            prefiller = model.prefiller(admission.route, decision.replica.id, inside)
            flight.begin(decision, prefiller)
        except BaseException:
            flight.close()
            raise
        endpoints = [model.endpoints[id_] for id_ in (decision.replica.id, *others)]
        return Picked(endpoints, flight, model.endpoints.get(flight.prefilled_at, ""))

    def _decision(self, model: PickedModel, admission: Admission, policy: Within | None) -> Decision:
        """Return the decision, or another one where its endpoint was lost since. Raises ReplicaUnavailable."""
        decision = admission.decision
        if decision is not None and model.dispatch_context.takes(decision):
            return decision
        route = msgspec.structs.replace(admission.route, may_wait=False)
        views = model.fleet.candidates()
        if views:
            with contextlib.suppress(NoCandidate):
                return (policy or model.policy).pick(route, views)
        raise ReplicaUnavailable("No endpoint of this model can take the request now.")

    def _others(self, model: PickedModel, route: RouteRequest, first: str, policy: Within | None) -> list[str]:
        """Return the ids of endpoints for a retry, the best first."""
        views: Sequence[ReplicaView] = model.fleet.candidates((first,))
        if policy is not None:
            views = policy.inside(views)
        if not views:
            return []
        try:
            scores = model.policy.explain(route, views[:_MOST_SCORED])
        except NoCandidate:
            return []
        return [score.replica for score in scores[: MOST_ENDPOINTS - 1]]
