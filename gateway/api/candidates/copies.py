"""Hear of clients' requests, and have their answers' bytes gathered where something becomes of them."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import Message, Send

from gateway.api.candidates.copied_request import CopiedRequest
from gateway.api.candidates.recorder import Recorder
from gateway.api.candidates.shadow_runs import ShadowRuns
from gateway.api.server.http_exchange import HttpExchange
from gateway.inference.generate_request import GenerateRequest
from observability.outcome import Outcome

log = logging.getLogger(__name__)

#: Bytes: requests with longer answers are not copied.
MOST_ANSWER_BYTES: Final = 1 << 20


class Copies:
    """The `AnswerCopies` of one worker. A request is copied when its client has been sent all of its answer, so that a
    copy delays nothing, and there is something to compare it with.
    """

    def __init__(
        self, shadows: ShadowRuns | None, recorder: Recorder | None, draw: Callable[[], float] = random.random
    ) -> None:
        """None: that use is not configured."""
        self._shadows = shadows
        self._recorder = recorder
        self._draw = draw

    def begin(self, exchange: HttpExchange, request: GenerateRequest, path: str, body: bytes, endpoint: str) -> None:
        """Have the answer gathered if the request is to be copied."""
        versions = request.model.versions
        if (versions is None or versions.split.shadow is None) and (
            self._recorder is None or not self._recorder.records
        ):
            return
        uses: list[Callable[[CopiedRequest], None]] = []
        shadows, recorder = self._shadows, self._recorder
        if shadows is not None and self._draw() < shadows.share_of(request):
            uses.append(shadows.begin)
        if recorder is not None and self._draw() < recorder.share_of(request):
            uses.append(recorder.take)
        if uses:
            gathering = _Gathering(exchange, request, path, body, endpoint, uses)
            exchange.wrap_send(gathering.observed)


class _Gathering:
    def __init__(
        self,
        exchange: HttpExchange,
        request: GenerateRequest,
        path: str,
        body: bytes,
        endpoint: str,
        uses: list[Callable[[CopiedRequest], None]],
    ) -> None:
        self._exchange = exchange
        self._request = request
        self._path = path
        self._body = body
        self._endpoint = endpoint
        self._uses = uses
        self._parts: list[bytes] = []
        self._size = 0

    def observed(self, send: Send) -> Send:
        """Have each message looked at before it is sent."""

        def seen_and_sent(message: Message) -> Awaitable[None]:
            self._see(message)
            return send(message)

        return seen_and_sent

    def _see(self, message: Message) -> None:
        if message["type"] != "http.response.body":
            return
        part: bytes = message.get("body", b"")
        self._size += len(part)
        if self._size > MOST_ANSWER_BYTES:
            self._parts.clear()
            return
        self._parts.append(part)
        if not message.get("more_body", False):
            # After this message has been sent.
            asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        record = self._exchange.record
        if record.status != 200 or record.outcome is not Outcome.OK:
            return
        request = self._request
        copied = CopiedRequest(
            request.caller,
            request.model,
            record,
            self._path,
            self._body,
            b"".join(self._parts),
            time.monotonic() - record.arrived,
            self._endpoint,
        )
        for use in self._uses:
            try:
                use(copied)
            except Exception:
                log.exception("request %s cannot be copied", record.id)
