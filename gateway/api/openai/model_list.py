"""`GET /v1/models` and `GET /v1/models/{id}` (OpenAI API reference, Models)."""

from typing import Any

import orjson

from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.models.served_model import ServedModel

PREFIX = "/v1/models/"


async def list_models(services: Services, exchange: HttpExchange) -> None:
    """List the models that the key may use: base models, adapters and aliases."""
    caller = await services.intake.identify(exchange, "models")
    data = [_describe(name, model) for name, model in services.catalog.named() if caller.allows_model(model.shown)]
    await exchange.respond(200, orjson.dumps({"object": "list", "data": data}))


async def get_model(services: Services, exchange: HttpExchange) -> None:
    """Describe one model; its name may hold slashes."""
    caller = await services.intake.identify(exchange, "models")
    name = exchange.path.removeprefix(PREFIX)
    await exchange.respond(200, orjson.dumps(_describe(name, services.catalog.require(caller, name))))


def _describe(name: str, model: ServedModel) -> dict[str, Any]:
    parent = {} if model.adapter is None else {"parent": model.name}
    return {
        "id": name,
        "object": "model",
        "created": model.created,
        "owned_by": "penstock",
        "max_model_len": model.context,
        **parent,
    }
