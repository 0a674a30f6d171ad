"""The dispatch context of one model in one worker: fleet, policy and budgets, and the reports of how requests went."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Final

import msgspec

from protos.errors import PenstockError, SequenceMoved
from protos.types import Role, Work
from routing.contracts.hedging_settings import Hedging
from routing.contracts.policy import (
    Decision,
    Ended,
    Left,
    NoCandidate,
    ReplicaView,
    Report,
    Routed,
    RouteRequest,
    RoutingPolicy,
    Stepped,
    learns,
    learns_from_ends,
)
from routing.dispatch.attempt import Attempt
from routing.dispatch.retry_budget import RetryBudget
from routing.estimates.silent_steps import is_silent
from routing.fleet.fleet import Fleet
from routing.policies.measures import kv_capacity
from routing.prefix.prefix_directory import Prefix

log = logging.getLogger(__name__)


_UNKNOWN: Final = Prefix((), {})
#: The reason of decisions that follow a request's KV cache.
HAS_KV_CACHE: Final = "has its KV cache"


class DispatchContext:
    """Fleet, policy, retry budget and hedging of one model. It sets the fleet's `on_work`, `on_left` and `on_widths`.

    `clock` counts seconds, the same as the requests' times.
    """

    def __init__(
        self,
        fleet: Fleet,
        policy: RoutingPolicy,
        *,
        hedging: Hedging | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fleet = fleet
        self.hedging = hedging
        #: Whether streams need neither hedging nor wider replicas.
        self.plain = False
        self.clock = clock
        self.budget = RetryBudget(clock)
        self._policy = policy
        self._learns, self._learns_from_ends = learns(policy), learns_from_ends(policy)
        self._prefixes = fleet.prefixes if policy.uses_prefixes else None
        if self._learns:
            fleet.on_work = self._stepped
            fleet.on_left = self._left
        fleet.on_widths = self._widths
        self._widths(fleet.wide_tokens)

    def explained(self, policy: RoutingPolicy) -> "DispatchContext":
        """Return a copy for one request with `policy`, a wrapper that records this policy's decisions."""
        dispatch_context = copy(self)
        dispatch_context._policy, dispatch_context._learns = policy, learns(policy)
        dispatch_context._learns_from_ends = learns_from_ends(policy)
        return dispatch_context

    def takes(self, decision: Decision) -> bool:
        """Whether the decision can still be followed."""
        fleet = self.fleet
        if decision.replica.id not in fleet.ready_ids:
            # A replica that takes a request over may not have told this worker yet that it is no longer parked.
            return decision.reason == HAS_KV_CACHE
        return decision.prefill is None or fleet.takes(decision.prefill.id)

    def choose(
        self, route: RouteRequest, exclude: Sequence[str], failure: PenstockError | None, *, whole: bool = False
    ) -> Decision:
        """Return the policy's decision among all but the `exclude` ids; `whole`: single replicas only.

        Raises `failure` when there is none, or ReplicaUnavailable where that is None.
        """
        candidates = self.fleet.candidates(exclude, route.needs, route.adapter)
        if self.fleet.narrow_tokens:
            candidates = [view for view in candidates if not 0 < kv_capacity(view) < route.prompt_tokens]
        if whole:
            candidates = [view for view in candidates if view.role is Role.BOTH]
        if candidates:
            try:
                return self._policy.pick(msgspec.structs.replace(route, may_wait=False), candidates)
            except NoCandidate:
                pass
        raise failure or self.fleet.unavailable()

    def taker(
        self, route: RouteRequest, tried: Sequence[str], error: PenstockError | None
    ) -> tuple[RouteRequest, Decision | None]:
        """Return the decision for the replica that has a request's KV cache, where `error` says that it has moved.

        The route then says that it is cached there. None: there is no such replica, or it does not take the request.
        """
        if not isinstance(error, SequenceMoved):
            return route, None
        view = self.fleet.taker(error.moved_to, route.needs, route.adapter)
        if view is None or view.id in tried:
            return route, None
        # Its last block is not full, and the last token is always computed.
        block = view.kv_block_tokens
        held = (route.prompt_tokens - 1) // block * block if block else 0
        route = msgspec.structs.replace(route, cached={**route.cached, view.id: held})
        return route, Decision(view, None, HAS_KV_CACHE)

    def moved(self, route: RouteRequest) -> RouteRequest:
        """Return the route of a request for whose version no replica is left; the same where no other may serve it."""
        needs = self.fleet.moved(route.needs)
        return route if needs == route.needs else msgspec.structs.replace(route, needs=needs)

    def look_up(self, prompt_ids: Sequence[int], salt: str) -> Prefix:
        """Look up a prompt in the replicas' caches; empty where the policy does not use prefixes."""
        return _UNKNOWN if self._prefixes is None else self._prefixes.look_up(prompt_ids, salt)

    def cached(self, route: RouteRequest) -> Mapping[str, int]:
        """Return the tokens of a request's prompt that each replica holds now."""
        if self._prefixes is None or not route.chain:
            return {}
        return self._prefixes.match(route.chain, route.prompt_tokens)

    def routed(self, attempt: Attempt) -> None:
        """Report that an attempt was sent."""
        attempt.routed_at = self.clock()
        if self._learns:
            self._observe(Routed(attempt.route, attempt.decision))
        if self._prefixes is not None and attempt.route.chain:
            self._prefixes.routed(attempt.replica_id, attempt.route.chain)

    def started(self, attempt: Attempt) -> None:
        """Report that an attempt's prompt has been computed."""
        attempt.started_at = self.clock()
        route = attempt.route
        if self._prefixes is not None and route.chain:
            replica_id = attempt.replica_id
            self._prefixes.record_cached(replica_id, route.cached.get(replica_id, 0), attempt.cached_tokens)

    def ended(self, attempt: Attempt, error: PenstockError | None) -> None:
        """Report an attempt's end, exactly once each; `error` is what ended it, if anything did."""
        if self._learns and (self._learns_from_ends or is_silent(attempt.decision.replica)):
            self._observe(self._report_of(attempt))
        if error is not None:
            lasted = self.clock() - attempt.routed_at
            self.fleet.failed(attempt.replica_id, error, lasted, begun=attempt.started_at is not None)
        elif not attempt.left:
            self.fleet.succeeded(attempt.replica_id)
            if attempt.decision.prefill is not None and attempt.replica_id != attempt.decision.prefill.id:
                self.fleet.succeeded(attempt.decision.prefill.id)

    def _report_of(self, attempt: Attempt) -> Ended:
        ttft = None if attempt.started_at is None else attempt.started_at - attempt.routed_at
        output = attempt.tokens - attempt.tokens_before
        seconds = self.clock() - attempt.routed_at
        return Ended(attempt.route, attempt.decision, attempt.cached_tokens, output, ttft, attempt.timing, seconds)

    def _widths(self, wide_tokens: int) -> None:
        self.plain = self.hedging is None and not wide_tokens

    def _stepped(self, view: ReplicaView, work: Work) -> None:
        self._observe(Stepped(view, work))

    def _left(self, replica_id: str) -> None:
        self._observe(Left(replica_id))

    def _observe(self, report: Report) -> None:
        # A policy's defect must not end the session that the report came from.
        try:
            self._policy.observe(report)
        except Exception:
            log.exception("the policy failed on a report")
