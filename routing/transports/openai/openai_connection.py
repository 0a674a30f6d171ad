"""The transport to an upstream with OpenAI's API over HTTP, whose answers are relayed as they come."""

import logging
import os
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace
from typing import Final

from observability.logs import RateLimit
from protos.errors import (
    ClientError,
    ModelNotFound,
    PenstockError,
    ReplicaUnavailable,
    UpstreamRateLimited,
    UpstreamRefuses,
)
from protos.types import ReplicaInfo, Submit
from routing.contracts.transport import Leg, Receiver
from routing.health.probe import Probe
from routing.health.refusals import RefusalProof
from routing.transports.counted_transport import CheckResult, CountedConnection, Flight, Unreachable
from routing.transports.http.connection_pool import MOST_CONNECTIONS, ConnectionPool
from routing.transports.http.origin import Origin, origin_of
from routing.transports.http.proxied_origin import proxied
from routing.transports.mailbox import Mailbox
from routing.transports.openai.provider import Provider
from routing.transports.openai.refusal_cause import Cause
from routing.transports.openai.scrape import Scrape
from routing.transports.openai.settings import KeyedUpstream
from routing.transports.openai.upstream_call import UpstreamCall
from routing.transports.openai.upstream_check import UpstreamCheck
from routing.transports.openai.upstream_json import JsonCall
from routing.transports.openai.upstream_refusals import Refusal
from routing.transports.openai.upstream_request import Requests
from routing.transports.openai.upstream_stream import StreamCall
from routing.transports.replica_connection import TransportContext
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.replica_tls import SslContexts

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=20))

#: Connections besides those of requests: health checks, and answers whose end mark has come but not their end.
_MORE_CONNECTIONS: Final = 64


class OpenAIConnection(CountedConnection):
    """Takes only submits with a payload. `spec.settings` is a KeyedUpstream. Needs a running event loop.

    An upstream over its limit (429, or 503 with a time to wait) gets no requests for the time that it states.
    """

    def __init__(self, spec: ReplicaSpec, context: TransportContext) -> None:
        super().__init__(spec, context)
        upstream = spec.settings if isinstance(spec.settings, KeyedUpstream) else KeyedUpstream()
        self._settings = settings = upstream.settings
        self._key = upstream.key
        #: The upstream's own name of the model.
        self.model = settings.model or spec.model
        origin = origin_of(spec.address)
        server_name = spec.tls.server_name if spec.tls is not None else ""
        origin = replace(origin, called=spec.host or (server_name if origin.tls else ""))
        origin = proxied(origin, settings.proxy, os.environ)
        self._pool = self._pool_to(origin, server_name, settings.max_in_flight or MOST_CONNECTIONS)
        self._requests = Requests(origin, self.model, settings)
        #: What replicas at one provider have in common; the names of models differ.
        self._shared, self._same = context.shared, _what_is_same(spec, upstream)
        self._provider = self._shared.take(self._same, lambda: self._made_provider(origin, server_name))
        #: The request to send, between `open` and `_send`.
        self._request = b""
        self._block_tokens = 0
        #: The flights that a load read now includes.
        self._before: list[Flight] = []
        self._tried = False
        #: End of the time for which it asked to get no requests.
        self._away_until: float | None = None
        self._proof = RefusalProof()

    @property
    def connected(self) -> bool:
        """Whether the last health check succeeded and no back-off is in effect."""
        return self._reached and self._away_until is None

    @property
    def tried(self) -> bool:
        return self._tried

    @property
    def back_off(self) -> float | None:
        return None if self._away_until is None else max(0.0, self._away_until - self._clock())

    def open(
        self,
        submit: Submit,
        kv_tokens: int | None = None,
        compute_tokens: int | None = None,
        receiver: Receiver | None = None,
    ) -> Leg:
        seconds = self.back_off
        if seconds is not None:
            raise UpstreamRateLimited("The model's provider takes no more requests now.", retry_after=seconds)
        if submit.payload is None or receiver is None:
            raise ReplicaUnavailable("The replica takes only requests in its API's own form.")
        most = self._settings.max_in_flight
        if most and len(self._flights) >= most:
            raise ReplicaUnavailable("The replica has as many requests as it may have.")
        try:
            adapter = submit.adapter.name if submit.adapter is not None else ""
            key = self._key()
            self._request = self._requests.request(submit.payload, key, adapter, submit.cache_salt, submit.trace)
        except (ValueError, OSError) as error:
            log.warning("replica %s at %s: a request cannot be sent: %s", self.spec.id, self.spec.address, error)
            raise ReplicaUnavailable("The replica cannot be asked.") from None
        return super().open(submit, kv_tokens, compute_tokens, receiver)

    def tick(self, *, probes: bool, ticks: int = 1) -> None:
        if self._away_until is not None and self._clock() >= self._away_until:
            self._away_until = None
            if self._reached:
                self._became_reachable()
        super().tick(probes=probes, ticks=ticks)

    async def aclose(self) -> None:
        again = self._closing
        await super().aclose()
        await self._pool.aclose()
        if again:
            return
        self._provider.leave(self)
        if self._shared.give_back(self._same):
            await self._provider.aclose()

    def answers(self, mailbox: Mailbox, cached_tokens: int) -> None:
        self._alive()
        self._provider.answered()
        self._proof.answered()
        self._started(mailbox, cached_tokens)

    def gave_up(self, call: UpstreamCall, error: PenstockError, what: str) -> None:
        self._provider.doubt()
        self._end(call, error, what)

    def refuses(self, call: UpstreamCall, said: Refusal) -> None:
        error, what = said.error, said.what
        if said.cause is Cause.MODEL and call.adapter:
            # Clients may name adapters that nobody listed.
            error = ModelNotFound("The model's upstream has no such adapter.", param="model")
        # Before the request may be retried, so that it does not come here again.
        if said.cause is Cause.FUNDS:
            error.retry_after = self._provider.cannot_pay(said.back_off, what)
        elif said.back_off:
            self.leave_alone(said.back_off, f"it asks to be left alone for {said.back_off:g} s: {what}")
        if isinstance(error, UpstreamRefuses):
            self._note_refusal(call, said)
        elif isinstance(error, ClientError):
            self._alive()
        ours = said.cause in (Cause.KEY, Cause.FUNDS, Cause.TOO_DEAR)
        self._end(call, error, what, logging.ERROR if ours else logging.WARNING)

    def look_begins(self) -> None:
        self._before = list(self._flights.values())

    def looked(self, found: Scrape | None) -> None:
        self._tried = True
        self._alive()
        # A look tells what is new of one that is away, or of its load.
        if self._away_until is None and (not self._reached or found is not None or self._scraped is not None):
            self._check_passed(self._result(found), self._before)
        self._before = []

    def look_failed(self, error: Unreachable) -> None:
        self._tried = True
        if self._away_until is None:
            self._check_failed(error)

    def leave_alone(self, seconds: float, why: str) -> None:
        until, known = self._clock() + seconds, self._away_until
        if known is None or until > known:
            self._away_until = until
        if known is None and self._reached:
            self.health.away(why)

    def key_is_refused(self, why: str) -> None:
        self._listener.failing(self.spec.id, f"{why}, again and again")

    def _note_refusal(self, call: UpstreamCall, said: Refusal) -> None:
        """Look whether the key is refused by itself, and eject the replica once refusals have proven that it is."""
        request = hash(call.payload.body)
        if said.cause is Cause.KEY:
            self._provider.refuses_key(call.tenant, request, said.what)
            return
        self._provider.doubt()
        # It may be one model that the key may not use.
        if self._proof.noted(self._clock(), call.tenant, request, clear=said.cause is Cause.MODEL):
            self.key_is_refused(said.what)

    def _begin(self) -> None:
        self._provider.join(self)

    def _result(self, found: Scrape | None) -> CheckResult:
        if found is not None:
            self._block_tokens = found.block_tokens
        return CheckResult(self._own_info(), found.load if found is not None else None)

    def _ask(self) -> Probe | None:
        return _HealthProbe(self._provider.be_sure)

    def _send(self, submit: Submit, mailbox: Mailbox) -> Callable[[], None]:
        payload, request = submit.payload, self._request
        assert payload is not None, "open has seen to it"
        kind = StreamCall if payload.stream else JsonCall
        call = kind(self, request, payload, submit, mailbox)
        self._pool.send(call)
        return call.stop

    def _own_info(self) -> ReplicaInfo:
        """Return the replica's description from the configuration, since the upstream sends none."""
        spec = self.spec
        return ReplicaInfo(
            model=spec.model,
            engine=spec.engine,
            fingerprint="",
            shape=spec.shape,
            role=spec.role,
            max_batch_size=self._settings.max_in_flight or 0,
            max_sequence_tokens=0,
            kv_block_tokens=self._block_tokens,
            kv_blocks_total=0,
            features=spec.features,
        )

    def _check_headers(self) -> dict[str, str]:
        return {**self._settings.sent_headers, **self._requests.key_header(self._key())}

    def _made_provider(self, origin: Origin, server_name: str) -> Provider:
        check = UpstreamCheck(self._pool_to(origin, server_name, 0), self._settings, self._check_headers, self.spec.id)
        return Provider(check, self._settings.health_seconds, self._clock)

    def _pool_to(self, origin: Origin, server_name: str, most: int) -> ConnectionPool:
        return ConnectionPool(
            origin,
            contexts=SslContexts(self.spec.tls).get if origin.tls else None,
            server_name=server_name,
            timeouts=self._settings.timeouts,
            most=most + _MORE_CONNECTIONS,
        )

    def _end(self, call: UpstreamCall, error: PenstockError, what: str, level: int = logging.WARNING) -> None:
        log.log(level, "replica %s at %s: request %s: %s", self.spec.id, self.spec.address, call.request_id, what)
        error.detail = what
        # An engine's fault is counted where the attempt ends; unavailability is counted here.
        unavailable = isinstance(error, ReplicaUnavailable) and not isinstance(error, UpstreamRateLimited)
        if unavailable:
            self._listener.touched()
            if self.health.breaker.failed(self._clock()):
                self._listener.failing(self.spec.id, f"its requests fail, the last one with {what}")
        self._lost(call.mailbox, error)


def _what_is_same(spec: ReplicaSpec, upstream: KeyedUpstream) -> Hashable:
    """Return what replicas have in common that are at one provider, with one key, and are looked at in one way."""
    settings = upstream.settings
    return (
        *(spec.address, spec.host, spec.tls, upstream.key, settings.proxy, settings.timeouts),
        *(settings.health, settings.health_seconds, settings.metrics, settings.metrics_of),
        tuple(sorted(settings.sent_headers.items())),
    )


class _HealthProbe:
    """A probe without cost: a look at the provider."""

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        self._look = look

    async def problem(self) -> str:
        """Wait for the answer; return why there is none, or an empty string."""
        try:
            await self._look()
        except Unreachable as error:
            return error.problem
        return ""

    def tick(self) -> None:
        """Do nothing: a look has its own timeout."""
