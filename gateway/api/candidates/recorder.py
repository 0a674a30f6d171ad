"""Record live requests of one worker while a command asks for it: redacted, and of tenants that allow it alone."""

import asyncio
import logging
import secrets
from collections import deque
from typing import Any, Final

import msgspec

from gateway.api.candidates.copied_request import CopiedRequest
from gateway.api.candidates.redacted_texts import RedactedTexts
from gateway.inference.generate_request import GenerateRequest
from gateway.rollouts.comparison.read_answer import NotAnAnswer
from gateway.rollouts.replay.corpus import Entry
from gateway.rollouts.replay.recording import LOOK_SECONDS, MOST_LINE_BYTES, Recording, Recordings
from gateway.rollouts.replay.redaction import NotRedactable
from protos.errors import FilterFailed, StoreUnavailable

log = logging.getLogger(__name__)

#: Requests that wait to be redacted at most; more are left out.
_MOST_WAITING: Final = 64
_BODY: Final = msgspec.json.Decoder(dict[str, Any])


class Recorder:
    """Looks once a second whether something is to be recorded, and hands in what has been."""

    def __init__(self, recordings: Recordings, redacted: RedactedTexts) -> None:
        self._recordings = recordings
        self._redacted = redacted
        self._running: Recording | None = None
        self._waiting: deque[CopiedRequest] = deque()

    @property
    def records(self) -> bool:
        """Whether something is to be recorded now."""
        return self._running is not None

    def share_of(self, request: GenerateRequest) -> float:
        """Return which part of requests like this one is recorded."""
        running = self._running
        if running is None or running.model != request.model.name or not request.caller.tenant.data.text:
            return 0.0
        return running.share

    def take(self, copied: CopiedRequest) -> None:
        """Record a request."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(copied)

    async def run(self) -> None:
        """Follow the recordings that are ordered in the store, until cancelled."""
        while True:
            try:
                self._running = await self._recordings.running()
                if self._running is not None:
                    await self._hand_in(self._running)
            except StoreUnavailable:
                # Without the store nobody asks for it any more.
                self._running = None
            except Exception:
                # Any error: a recorder that ends records nothing again, and nobody would know.
                log.exception("recording requests")
            if self._running is None:
                self._waiting.clear()
            await asyncio.sleep(LOOK_SECONDS)

    async def _hand_in(self, running: Recording) -> None:
        lines = []
        while self._waiting:
            copied = self._waiting.popleft()
            if copied.model.name != running.model:
                # Of a recording that has ended meanwhile.
                continue
            line = await self._line(copied)
            if line is not None and len(line) <= MOST_LINE_BYTES:
                lines.append(line)
        if lines:
            await self._recordings.hand_in(running, lines)

    async def _line(self, copied: CopiedRequest) -> bytes | None:
        """Make a line of a corpus; None where the answer cannot be read or nothing may be kept."""
        try:
            answer = copied.read_answer()
            body = await self._redacted.body(_BODY.decode(copied.body))
            redacted, _ = await self._redacted.answers(answer, None)
        except (NotAnAnswer, NotRedactable, FilterFailed, msgspec.DecodeError):
            return None
        entry = Entry(
            id=f"live-{secrets.token_hex(8)}",
            path="/v1/completions" if copied.path == "/completions" else "/v1/chat/completions",
            body=body,
            answer=redacted,
            version=copied.record.version,
        )
        return msgspec.json.encode(entry)
