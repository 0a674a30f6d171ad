"""Health endpoints without a key: `GET /healthz` (this worker runs), `GET /readyz` (it could serve a request)."""

from typing import Final, Literal

import msgspec

from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.models.served_model import ServedModel


class ReplicaCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts of a model's replicas; `refused`: not what is configured, left out where there are none.

    `at_zero`: none serves, by intention; the next request starts one, and waits for it.
    """

    replicas: int
    ready: int
    refused: int = 0
    at_zero: bool = False


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """The status of the process, and for readiness that of the models' replicas."""

    status: Literal["ok", "ready", "not ready"]
    models: dict[str, ReplicaCounts] | None = None


_OK: Final = msgspec.json.encode(Health("ok"))


async def healthz(services: Services, exchange: HttpExchange) -> None:
    """Answer 200 as long as the process runs."""
    del services
    await exchange.respond(200, _OK)


async def readyz(services: Services, exchange: HttpExchange) -> None:
    """Answer 200 when the store answers and every model has a replica, or none by intention.

    Else 503, as while the gateway ends.
    It has counts only, no addresses.
    """
    ready = await services.ready()
    models = {model.name: _counts(model) for model in services.catalog.models.values()}
    body = msgspec.json.encode(Health("ready" if ready else "not ready", models))
    await exchange.respond(200 if ready else 503, body)


def _counts(model: ServedModel) -> ReplicaCounts:
    fleet = model.fleet
    return ReplicaCounts(len(fleet), fleet.ready_replicas, fleet.refused_replicas, model.at_zero)
