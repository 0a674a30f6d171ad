"""`GET /healthz` (this worker runs) and `GET /readyz` (it could serve a request now); neither needs a key."""

import orjson

from gateway.api.server.http_exchange import Exchange
from gateway.api.server.services import Services
from routing.fleet.fleet import Fleet


async def healthz(services: Services, exchange: Exchange) -> None:
    """200 as long as the process answers at all."""
    del services
    await exchange.respond(200, b'{"status":"ok"}')


async def readyz(services: Services, exchange: Exchange) -> None:
    """200 when the store answers and every model has a replica, else 503 with counts and no addresses."""
    ready = await services.ready()
    models = {model.name: _counts(model.fleet) for model in services.catalog.models.values()}
    body = orjson.dumps({"status": "ready" if ready else "not ready", "models": models})
    await exchange.respond(200 if ready else 503, body)


def _counts(fleet: Fleet) -> dict[str, int]:
    """`refused` are those that are not what is configured; left out where there are none."""
    counts = {"replicas": len(fleet), "ready": fleet.ready_replicas}
    refused = fleet.refused_replicas
    return {**counts, "refused": refused} if refused else counts
