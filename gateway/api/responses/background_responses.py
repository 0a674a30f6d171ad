"""Background responses: a worker generates them and writes their state to the store.

Clients read a response from the store, through any worker. The generating worker renews it every half second; a
response that no worker has renewed for some seconds has failed.
"""

import asyncio
import contextlib
import logging
import time
from typing import Final

from gateway.api.openai.body_reading import read_body
from gateway.api.openai.chat import CHAT
from gateway.api.openai.infer import infer
from gateway.api.responses.response_answer import QUEUED, ResponseForm
from gateway.api.responses.responses_adapter import ENDPOINT, ResponsesAdapter
from gateway.api.responses.responses_renderer import ResponseRenderer
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.internal_exchange import InternalExchange
from gateway.api.server.run_handler import serve
from gateway.api.server.services import Services
from gateway.api.writers.api_adapter import AnswerHead
from gateway.inference.generate_request import scratch_record
from gateway.jobs.responses.response_store import LEASE_SECONDS
from gateway.tenancy.tenants.caller import Caller
from protos.errors import ClientGone, InternalError, PenstockError, StoreUnavailable

log = logging.getLogger(__name__)

#: Seconds between writes of events to the store; every other one renews the response.
WRITE_SECONDS: Final = 0.25
_RETRY_SECONDS: Final = 0.5


async def start_in_background(services: Services, adapter: ResponsesAdapter) -> tuple[bytes, tuple[str, ...]]:
    """Start a response in the background; return its first state, and what became of parameters that are hints.

    Raises errors that can still be a status.
    """
    services.background.check()
    request = adapter.body
    # Errors in the request are answered at once.
    model = services.catalog.require(adapter.caller, request.model)
    checked = read_body(CHAT, adapter.chat).request(adapter.caller, model, scratch_record())
    form = adapter.form(int(time.time()), model.shown)
    queued = form.write(QUEUED)
    previous = request.previous_response_id or ""
    await services.responses.put(
        adapter.caller.tenant.name, adapter.id, QUEUED.status, previous, adapter.given, queued, lease=True
    )
    running = BackgroundResponse(services, adapter, form)
    services.background.start(running.run(), running.stop)
    # An upstream gets hints as they came.
    return queued, adapter.adjusted if model.relays else (*adapter.adjusted, *checked.adjusted)


class BackgroundResponse:
    """A background response from its start in the store to its end; also the `ApiAdapter` of its internal request."""

    endpoint = ENDPOINT

    def __init__(self, services: Services, adapter: ResponsesAdapter, form: ResponseForm) -> None:
        self._services = services
        self._adapter = adapter
        self._form = form
        self._tenant = adapter.caller.tenant.name
        self.adjusted = adapter.adjusted
        self._exchange = InternalExchange(adapter.caller, CHAT.path, adapter.chat, services.sampler, ENDPOINT)
        self._renderer: ResponseRenderer | None = None
        self._error: PenstockError | None = None

    async def translate(self, caller: Caller, body: bytes) -> bytes:
        """Return the body, which was translated before the client had its answer."""
        del caller
        return body

    def renderer(self, head: AnswerHead) -> ResponseRenderer:
        """Make the renderer, which may be for a fallback's answer."""
        self._form, namespaced = self._adapter.form(self._form.created, head.model), self._adapter.tools.namespaced
        self._renderer = ResponseRenderer(self._form, self._adapter.logprobs_of(head.model), namespaced, queued=True)
        return self._renderer

    async def store_answer(self) -> None:
        """Store nothing: the end is written once the request has ended."""

    def stop(self, error: PenstockError) -> None:
        """End the response with an error."""
        self._exchange.handle.fail(error)

    async def run(self) -> None:
        """Generate the response; raise nothing but a cancellation."""
        serving = asyncio.ensure_future(serve(self._services, self._exchange, self._answer, named=True))
        unwritten, writes = b"", 0
        try:
            while not (await asyncio.wait({serving}, timeout=WRITE_SECONDS))[0]:
                writes += 1
                unwritten += self._events()
                if not unwritten and writes % 2:
                    continue
                with contextlib.suppress(StoreUnavailable):
                    ended = await self._services.responses.progress(self._tenant, self._adapter.id, unwritten)
                    unwritten = b""
                    if ended is not None:
                        log.info("the background response %s is given up: %s", self._adapter.id, ended)
                        self.stop(ClientGone("The response was cancelled or deleted."))
                        await serving
                        return
            await self._finish(unwritten + self._events())
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _answer(self, services: Services, exchange: HttpExchange) -> None:
        try:
            await infer(services, exchange, CHAT, self)
        except PenstockError as error:
            self._error = error
            raise

    def _events(self) -> bytes:
        """Return the new events; an answer that is no stream is an error, which `_finish` writes."""
        if self._exchange.status != 200:
            return b""
        parts, self._exchange.written = self._exchange.written, []
        return b"".join(parts)

    async def _finish(self, events: bytes) -> None:
        renderer = self._renderer
        error = self._error or InternalError("The gateway failed on this request.")
        if renderer is None or self._exchange.status != 200:
            # Nothing of its stream was written.
            renderer = ResponseRenderer(self._form, self._adapter.logprobs_of(""), queued=True)
            events = renderer.opening() + renderer.broken(error)
        elif not renderer.final:
            events += renderer.broken(error)
        status = renderer.outcome.status
        failed = status == "failed"
        addition = None if failed else self._adapter.addition(renderer.output)
        give_up = time.monotonic() + LEASE_SECONDS
        while True:
            try:
                await self._services.responses.finish(
                    self._tenant, self._adapter.id, status, renderer.final, events, addition
                )
            except StoreUnavailable:
                if time.monotonic() > give_up:
                    log.warning("the background response %s has ended, and the store is away", self._adapter.id)
                    return
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return
