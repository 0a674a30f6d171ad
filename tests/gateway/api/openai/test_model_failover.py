"""Between two models of a chain: what is left of the first one when the second is asked."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.api.openai.model_failover import first_to_answer
from gateway.api.server.http_exchange import HttpExchange
from gateway.config.models.fallbacks import Fallbacks
from gateway.models.first_tokens import FirstTokenTimes
from gateway.models.served_model import ServedModel
from observability.tracing.sampling import HeadSampler
from protos.errors import ClientGone, PenstockError, ReplicaFailed, ReplicaUnavailable
from tests.models import model_of

MODEL = model_of()


class Awaited:
    """What an attempt waits for: a stream, or a turn."""

    def __init__(self) -> None:
        self.error: PenstockError | None = None

    @property
    def failed(self) -> bool:
        return self.error is not None

    def fail(self, error: PenstockError) -> None:
        self.error = self.error or error


def exchange_of() -> HttpExchange:
    async def nothing(*_: Any) -> Any:
        raise AssertionError

    return HttpExchange({"method": "POST", "path": "/", "headers": []}, nothing, nothing, HeadSampler(None))


def chain_of(**fields: Any) -> Sequence[ServedModel]:
    first = replace(MODEL, name="first", fallbacks=Fallbacks(models=("second",), **fields))
    return [first, replace(MODEL, name="second", first_tokens=FirstTokenTimes())]


async def test_the_end_of_the_first_one_is_not_the_requests() -> None:
    exchange = exchange_of()
    models = chain_of()

    async def start(model: ServedModel) -> Any:
        if model is models[0]:
            exchange.handle.follow(stream := Awaited())
            stream.fail(ReplicaFailed("broken"))
            raise stream.error or AssertionError
        # Before anything of it is awaited: a request that counts as failed gets no more than half a minute.
        assert not exchange.handle.failed
        return model

    found: Any = await first_to_answer(exchange, models[0], models, start)
    assert found is models[1]


@pytest.mark.parametrize("awaited", [True, False])
async def test_a_model_is_out_of_time_whatever_its_request_is_doing(awaited: bool) -> None:
    exchange = exchange_of()
    models = chain_of(ttft_ms=1)

    async def start(model: ServedModel) -> Any:
        if model is models[1]:
            exchange.handle.check()
            return model
        stream = Awaited()
        if awaited:
            exchange.handle.follow(stream)
        await asyncio.sleep(0.02)  # as for the store, which knows of no attempt
        exchange.handle.follow(stream)
        assert stream.error is not None
        with pytest.raises(ReplicaUnavailable):
            exchange.handle.check()
        raise stream.error

    found: Any = await first_to_answer(exchange, models[0], models, start)
    assert found is models[1]
    assert models[0].first_tokens.seconds >= 0.02


async def test_a_client_that_left_between_two_models_is_gone() -> None:
    exchange = exchange_of()
    models = chain_of()

    async def start(model: ServedModel) -> Any:
        if model is models[0]:
            exchange.handle.fail(ClientGone("left"))
            raise ReplicaFailed("broken")
        exchange.handle.check()

    with pytest.raises(ClientGone):
        await first_to_answer(exchange, models[0], models, start)
