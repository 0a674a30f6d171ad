"""`GET /v1/models` and `GET /v1/models/{id}` (OpenAI API reference, Models)."""

from typing import Any

import orjson

from gateway.gateway import Gateway
from gateway.http.exchange import Exchange
from gateway.served_model import ServedModel

PREFIX = "/v1/models/"


async def list_models(gateway: Gateway, exchange: Exchange) -> None:
    """The models that the key may use, and after them those with an adapter."""
    caller = await gateway.identify(exchange, "models")
    models = [*gateway.models.values(), *gateway.adapter_models.all()]
    data = [_describe(model) for model in models if caller.allows_model(model.shown)]
    await exchange.respond(200, orjson.dumps({"object": "list", "data": data}))


async def get_model(gateway: Gateway, exchange: Exchange) -> None:
    """One model; its name may hold slashes."""
    caller = await gateway.identify(exchange, "models")
    model = gateway.model(caller, exchange.path.removeprefix(PREFIX))
    await exchange.respond(200, orjson.dumps(_describe(model)))


def _describe(model: ServedModel) -> dict[str, Any]:
    parent = {} if model.adapter is None else {"parent": model.name}
    return {
        "id": model.shown,
        "object": "model",
        "created": model.created,
        "owned_by": "penstock",
        "max_model_len": model.context,
        **parent,
    }
