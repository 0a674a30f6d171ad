"""What every endpoint begins with: a request is admitted, its caller identified, its time limited."""

import time
from typing import Protocol

from gateway.api.server.http_exchange import Exchange
from gateway.api.server.rate_headers import rate_headers
from gateway.api.server.request_watchdog import Overseer
from gateway.config.listen import Listen
from gateway.tenancy.auth.authenticator import Authenticator
from gateway.tenancy.limits.limiter import Limiter
from gateway.tenancy.tenants.caller import Caller
from protos.errors import Overloaded


class Recorder(Protocol):
    """A journal, as far as the intake asks it."""

    @property
    def refusing(self) -> bool:
        """Whether it takes no more records."""
        ...


class Intake:
    """The beginning of requests in one worker."""

    def __init__(
        self,
        listen: Listen,
        overseer: Overseer,
        authenticator: Authenticator,
        limiter: Limiter,
        journal: Recorder | None,
    ) -> None:
        """While the `journal` takes no records, no request may begin; None: there is no journal."""
        self._listen = listen
        self._overseer = overseer
        self._authenticator = authenticator
        self._limiter = limiter
        self._journal = journal

    def admit(self, exchange: Exchange) -> None:
        """Count a request in. Raises Overloaded beyond `listen.max_in_flight`, and while none may go unrecorded."""
        if len(self._overseer.active) >= self._listen.max_in_flight:
            raise Overloaded("The gateway is at its limit of concurrent requests. Try again shortly.", retry_after=1.0)
        if self._journal is not None and self._journal.refusing:
            raise Overloaded("The gateway cannot record requests at the moment. Try again shortly.", retry_after=1.0)
        self._overseer.enter(exchange)

    async def identify(self, exchange: Exchange, endpoint: str) -> Caller:
        """The caller; from now on the answer has the headers of its rate limits.

        Raises AuthenticationFailed, PermissionDenied or StoreUnavailable.
        """
        caller = exchange.caller or await self._authenticator.authenticate(exchange.authorization)
        key_id, record = caller.key.key_id, exchange.record
        record.tenant, record.key_id, record.tier = caller.tenant.name, key_id, caller.tier.name
        record.identified = time.monotonic()
        exchange.caller_headers = lambda: rate_headers(self._limiter.last_rate(key_id))
        caller.require_endpoint(endpoint)
        return caller

    def deadline(self, wanted: float | None) -> float:
        """When a request that starts now must have ended, on the monotonic clock; `wanted`: the client's, seconds."""
        bound = self._listen.request_timeout_seconds
        return time.monotonic() + (bound if wanted is None else min(bound, wanted))
