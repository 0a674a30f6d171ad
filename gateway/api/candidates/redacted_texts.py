"""Texts without personal data and secrets, for what is kept of requests; made in a thread."""

import asyncio
from typing import Any

from gateway.rollouts.comparison.answer import Answer
from gateway.rollouts.replay.redaction import Redaction, usual_redaction


class RedactedTexts:
    """The redaction of one worker; its tables are loaded when it is first needed."""

    def __init__(self) -> None:
        self._redaction: Redaction | None = None
        self._loading = asyncio.Lock()

    async def answers(self, baseline: Answer, candidate: Answer | None) -> tuple[Answer, Answer | None]:
        """Redact two answers. Raises FilterFailed."""
        redaction = await self._loaded()
        one = await asyncio.to_thread(redaction.answer, baseline)
        return one, None if candidate is None else await asyncio.to_thread(redaction.answer, candidate)

    async def body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Redact a request's body. Raises FilterFailed and NotRedactable."""
        redaction = await self._loaded()
        return await asyncio.to_thread(redaction.body, body)

    async def _loaded(self) -> Redaction:
        async with self._loading:
            if self._redaction is None:
                self._redaction = await asyncio.to_thread(usual_redaction)
            return self._redaction
