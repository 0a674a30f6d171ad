"""Try the models of a request's fallback chain until one answers."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from typing import Any, Final

from gateway.api.server.http_exchange import HttpExchange
from gateway.inference.fallback_chain import FALLBACK_ERRORS, UNFIT_ERRORS, first_token_timeout
from gateway.inference.generation import Generation
from gateway.models.served_model import ServedModel
from observability.logs import RateLimit
from observability.record import RequestRecord
from protos.errors import PenstockError, ReplicaUnavailable

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=20))

#: The header that names the model that answered, where it is not the one that was asked for.
ANSWERED_BY: Final = b"x-penstock-fallback"


async def first_to_answer(
    exchange: HttpExchange,
    requested: ServedModel,
    models: Sequence[ServedModel],
    start: Callable[[ServedModel], Coroutine[Any, Any, Generation]],
) -> Generation:
    """Call `start` for one model after the other and return the first generation; `requested` need not be among them.

    Raises the last model's error; but where the last model can never take the request and an earlier one could, the
    earlier one's error, since the client is not at fault then.
    """
    failed: PenstockError | None = None
    for model, following in pairwise(models):
        try:
            return await _answer(exchange, requested, model, start, first_token_timeout(requested.fallbacks))
        except FALLBACK_ERRORS as error:
            exchange.handle.renew()
            _note_version(exchange.record, model, requested, error)
            failed = failed if isinstance(error, UNFIT_ERRORS) else error
            log.warning(
                "request %s: model %s falls back to %s: %s %s",
                exchange.request_id,
                model.name,
                following.name,
                error.code,
                error.detail or error.message,
            )
    try:
        return await _answer(exchange, requested, models[-1], start, None)
    except UNFIT_ERRORS:
        if failed is None:
            raise
        raise failed from failed.__cause__


def _note_version(record: RequestRecord, failed: ServedModel, requested: ServedModel, error: PenstockError) -> None:
    """Keep which version of the requested model has failed: its rollout goes by that, whoever answers.

    A request that the model can never take is no version's failure.
    """
    if failed is requested and not isinstance(error, UNFIT_ERRORS):
        record.failed_version, record.failed_epoch = record.version, record.rollout_epoch
    record.version, record.rollout_epoch = "", 0


async def _answer(
    exchange: HttpExchange,
    requested: ServedModel,
    model: ServedModel,
    start: Callable[[ServedModel], Coroutine[Any, Any, Generation]],
    seconds: float | None,
) -> Generation:
    """Start one model's generation; interrupt it when it has not begun to answer after so many seconds."""
    alarm, late = None, ReplicaUnavailable("The model did not begin to answer in time.")
    if seconds is not None:
        alarm = asyncio.get_running_loop().call_later(seconds, exchange.handle.interrupt, late)
    began = time.monotonic()
    try:
        generation = await start(model)
    except ReplicaUnavailable as error:
        if error is late:  # it would have taken longer still
            model.first_tokens.note(time.monotonic() - began)
        raise
    finally:
        if alarm is not None:
            alarm.cancel()
    model.first_tokens.note(time.monotonic() - began)
    if model is not requested:
        of_caller = exchange.caller_headers
        exchange.caller_headers = lambda: [*of_caller(), (ANSWERED_BY, model.name.encode())]
    return generation
