"""From the model that was asked for to the first one that answers."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from gateway.fallbacks import FALLS_OVER, patience
from gateway.generate import Generation
from gateway.http.exchange import Exchange
from gateway.served_model import ServedModel
from observability.logs import RateLimit
from protos.errors import ReplicaUnavailable

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=20))

#: Which model answers, where it is not the one that was asked for.
ANSWERED_BY: Final = b"x-penstock-fallback"


async def first_to_answer(
    exchange: Exchange,
    asked: ServedModel,
    models: Sequence[ServedModel],
    start: Callable[[ServedModel], Coroutine[Any, Any, Generation]],
) -> Generation:
    """What `start` gives for the first of the models that does not fail; `asked` need not be among them.

    Raises the error of the last one.
    """
    for model in models[:-1]:
        try:
            return await _answer(exchange, asked, model, start, patience(asked.fallbacks))
        except FALLS_OVER as error:
            log.warning(
                "request %s: model %s falls back: %s %s",
                exchange.request_id,
                model.name,
                error.code,
                error.detail or error.message,
            )
    return await _answer(exchange, asked, models[-1], start, None)


async def _answer(
    exchange: Exchange,
    asked: ServedModel,
    model: ServedModel,
    start: Callable[[ServedModel], Coroutine[Any, Any, Generation]],
    seconds: float | None,
) -> Generation:
    """One model's, which is interrupted when it has not begun to answer by then."""
    alarm = None
    if seconds is not None:
        late = ReplicaUnavailable("The model did not begin to answer in time.")
        alarm = asyncio.get_running_loop().call_later(seconds, exchange.attempt.interrupt, late)
    began = time.monotonic()
    try:
        generation = await start(model)
    finally:
        if alarm is not None:
            alarm.cancel()
    model.first_tokens.note(time.monotonic() - began)
    if model is not asked:
        of_caller = exchange.caller_headers
        exchange.caller_headers = lambda: [*of_caller(), (ANSWERED_BY, model.name.encode())]
    return generation
