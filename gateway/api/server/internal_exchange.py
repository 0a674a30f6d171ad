"""A request that the gateway makes to itself, for a caller whose connection is gone: it takes the same path as any."""

import asyncio
from collections.abc import Sequence
from typing import Final

from starlette.types import Message, Scope

from gateway.api.server.http_exchange import HttpExchange
from gateway.tenancy.tenants.caller import Caller
from observability.tracing.sampling import HeadSampler

_END: Final = b""


class InternalExchange(HttpExchange):
    """Gives a handler (gateway/api/openai/infer.py) its body and takes its answer: `status`, and what is `written`."""

    __slots__ = ("_given", "_gone", "headers", "status", "written")

    def __init__(
        self,
        caller: Caller,
        path: str,
        body: bytes,
        sampler: HeadSampler,
        endpoint: str,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """As a POST to that path; it counts under `endpoint`."""
        scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [(b"content-length", b"%d" % len(body)), *headers],
        }
        self._given = body
        #: Its caller has left: nothing comes after the body until then.
        self._gone = asyncio.Event()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.written: list[bytes] = []
        super().__init__(scope, self._give, self._take, sampler, endpoint)
        self.caller = caller

    @property
    def answer(self) -> bytes:
        """The body so far."""
        return b"".join(self.written)

    def keep_alive(self, now: float, seconds: float) -> None:
        """There is no connection to keep."""

    def leave(self) -> None:
        """As a client that closes its connection: what runs is ended. Idempotent."""
        self._gone.set()

    async def _give(self) -> Message:
        if self._given is not _END:
            # Whoever reads it is at the request, and not who has made it; that is whom a time limit ends.
            self._task = asyncio.current_task()
            body, self._given = self._given, _END
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
        else:
            self.written.append(message.get("body", b""))
