"""The intake of requests: admission, authentication, body, model, time limits, and the end of the watch."""

import time
from types import TracebackType
from typing import Final, Protocol

from gateway.api.server.client_timeouts import read_timeout, request_timeout
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.rate_headers import rate_headers
from gateway.api.server.request_watchdog import RequestWatchdog
from gateway.caching.lru import Lru
from gateway.config.listen import Listen
from gateway.models.catalog import ModelCatalog
from gateway.models.served_model import ServedModel
from gateway.tenancy.auth.authenticator import Authenticator
from gateway.tenancy.limits.limiter import Limiter
from gateway.tenancy.tenants.background import in_background
from gateway.tenancy.tenants.caller import Caller
from observability.digests import Digests
from protos.errors import Overloaded

#: Callers in the background that are remembered.
_MOST_BACKGROUND: Final = 256


class Recorder(Protocol):
    """The journal, as far as the intake needs it."""

    @property
    def refusing(self) -> bool:
        """Whether the journal takes no more records."""
        ...


class Intake:
    """The intake of one worker."""

    def __init__(
        self,
        listen: Listen,
        watchdog: RequestWatchdog,
        authenticator: Authenticator,
        limiter: Limiter,
        catalog: ModelCatalog,
        digests: Digests | None,
        journal: Recorder | None,
        lowest: int,
    ) -> None:
        """While the `journal` takes no records, no request may begin; None: there is no journal.

        `lowest` is the rank of the lowest tier.
        """
        self.listen = listen
        self.catalog = catalog
        self.digests = digests
        self._watchdog = watchdog
        self._authenticator = authenticator
        self._limiter = limiter
        self._journal = journal
        self._lowest = lowest
        #: By key: its caller, and the same one in the background.
        self._background: Lru[str, tuple[Caller, Caller]] = Lru(_MOST_BACKGROUND)

    def open(self, exchange: HttpExchange, endpoint: str) -> "IncomingRequest":
        """Make a request's async context: it admits the request, identifies its caller and ends its time limits."""
        return IncomingRequest(self, exchange, endpoint)

    async def caller(self, exchange: HttpExchange, endpoint: str) -> Caller:
        """Admit a request and identify its caller. Raises what `admit` and `identify` raise."""
        self.admit(exchange)
        return await self.identify(exchange, endpoint)

    def admit(self, exchange: HttpExchange) -> None:
        """Admit a request. Raises Overloaded beyond `listen.max_in_flight`, and while the journal takes no records."""
        if len(self._watchdog.active) >= self.listen.max_in_flight:
            raise Overloaded("The gateway is at its limit of concurrent requests. Try again shortly.", retry_after=1.0)
        if self._journal is not None and self._journal.refusing:
            raise Overloaded("The gateway cannot record requests at the moment. Try again shortly.", retry_after=1.0)
        self._watchdog.enter(exchange)

    async def identify(self, exchange: HttpExchange, endpoint: str) -> Caller:
        """Authenticate the caller; add its rate-limit headers to the answer.

        Raises AuthenticationFailed, PermissionDenied or StoreUnavailable.
        """
        caller = exchange.caller or await self._authenticator.authenticate(exchange.authorization)
        key_id, record = caller.key.key_id, exchange.record
        record.tenant, record.key_id, record.tier = caller.tenant.name, key_id, caller.tier.name
        record.identified = time.monotonic()
        if caller.limited:
            exchange.caller_headers = lambda: rate_headers(self._limiter.last_rate(key_id))
        if caller.key.endpoints:
            caller.require_endpoint(endpoint)
        return caller

    def in_background(self, caller: Caller) -> Caller:
        """Return the caller as one whose requests stand behind all others."""
        known = self._background.get(caller.key.key_id)
        if known is None or known[0] is not caller:
            known = (caller, in_background(caller, self._lowest))
            self._background.put(caller.key.key_id, known)
        return known[1]

    def deadline(self, wanted: float | None = None) -> float:
        """Give the monotonic end time of a request that starts now; `wanted`: the client's limit in seconds."""
        bound = self.listen.request_timeout_seconds
        return time.monotonic() + (bound if wanted is None else min(bound, wanted))


class IncomingRequest:
    """One request between its admission and its end. In the context call `body`, then `model`, then `begin`."""

    __slots__ = ("_endpoint", "_intake", "_timeout", "caller", "deadline", "exchange", "wait_until")

    #: Both set by `begin`, on the monotonic clock: the latest time of admission, and of the end.
    wait_until: float
    deadline: float
    caller: Caller

    def __init__(self, intake: Intake, exchange: HttpExchange, endpoint: str) -> None:
        self._intake = intake
        self._endpoint = endpoint
        self._timeout: float | None = None
        self.exchange = exchange

    async def __aenter__(self) -> "IncomingRequest":
        self._intake.admit(self.exchange)
        self.caller = await self._intake.identify(self.exchange, self._endpoint)
        if self.exchange.background:
            self.caller = self._intake.in_background(self.caller)
            self.exchange.record.background = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.exchange.unwatch()
        if self._timeout is not None:
            self.exchange.cancel_check()

    async def body(self) -> bytes:
        """Read the whole body. Raises InvalidRequest for a bad time limit in the headers, and what reading raises."""
        exchange, intake = self.exchange, self._intake
        if exchange.request_timeout is not None:
            self._timeout = request_timeout(exchange.request_timeout)
        body = await exchange.body(intake.listen.max_body_bytes)
        record, digests = exchange.record, intake.digests
        record.request_bytes = len(body)
        if digests is not None:
            record.request_hash = digests.of(body)
        return body

    def model(self, name: str) -> ServedModel:
        """Find the model that the body names, and record it. Raises ModelNotFound or PermissionDenied."""
        # Recorded only once it is known to be one of ours: a name may be any text.
        catalog, caller = self._intake.catalog, self.caller
        model = catalog.models.get(name)
        if model is None or not caller.all_models:
            model = catalog.require(caller, name)
        record = self.exchange.record
        record.model = record.asked_model = model.name
        record.screened = time.monotonic()
        return model

    def begin(self) -> None:
        """Start the request's time limits, and have the watchdog watch its client's connection."""
        exchange, timeout = self.exchange, self._timeout
        bound = self._intake.listen.request_timeout_seconds
        if timeout is not None:
            bound = min(bound, timeout)
            exchange.schedule_check(timeout)
        exchange.deadline = self.deadline = self.wait_until = time.monotonic() + bound
        if exchange.read_timeout is None:
            return
        reads_within = read_timeout(exchange.read_timeout)
        if reads_within is not None:
            self.wait_until = min(self.wait_until, exchange.record.arrived + reads_within)
