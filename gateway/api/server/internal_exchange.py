"""Internal exchange: a request that the gateway makes itself, without a connection, on the path of any request."""

import asyncio
from collections.abc import Sequence
from typing import Final

from starlette.types import Message, Scope

from gateway.api.server.http_exchange import HttpExchange
from gateway.tenancy.tenants.caller import Caller
from observability.tracing.sampling import HeadSampler

_END: Final = b""


class InternalExchange(HttpExchange):
    """Gives a handler (gateway/api/openai/infer.py) a body and takes its answer: `status` and `written`."""

    internal = True

    def __init__(
        self,
        caller: Caller,
        path: str,
        body: bytes,
        sampler: HeadSampler,
        endpoint: str,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """The request is a POST to `path`; it counts under `endpoint`."""
        scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [(b"content-length", b"%d" % len(body)), *headers],
        }
        self._given = body
        #: Set when the caller leaves; until then nothing follows the body.
        self._gone = asyncio.Event()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.written: list[bytes] = []
        super().__init__(scope, self._give, self._take, sampler, endpoint)
        self.caller = caller
        self.record.background = caller.background

    @property
    def answer(self) -> bytes:
        """The answer's body so far."""
        return b"".join(self.written)

    def keep_alive(self, now: float, seconds: float) -> None:
        """Do nothing: there is no connection."""

    def leave(self) -> None:
        """End the request, as when a client closes its connection. Idempotent."""
        self._gone.set()

    async def _give(self) -> Message:
        if self._given is not _END:
            body, self._given = self._given, _END
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
        else:
            self.written.append(message.get("body", b""))
