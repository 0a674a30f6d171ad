"""`GET /healthz` (this worker runs) and `GET /readyz` (it could serve a request now); neither needs a key."""

import orjson

from gateway.gateway import Gateway
from gateway.http.exchange import Exchange


async def healthz(gateway: Gateway, exchange: Exchange) -> None:
    """200 as long as the process answers at all."""
    del gateway
    await exchange.respond(200, b'{"status":"ok"}')


async def readyz(gateway: Gateway, exchange: Exchange) -> None:
    """200 when the store answers and every model has a replica, else 503 with counts and no addresses."""
    ready = await gateway.ready()
    models = {
        model.name: {"replicas": len(model.fleet), "ready": model.fleet.ready_replicas}
        for model in gateway.models.values()
    }
    body = orjson.dumps({"status": "ready" if ready else "not ready", "models": models})
    await exchange.respond(200 if ready else 503, body)
