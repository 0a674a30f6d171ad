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
    """The status of the process, and for readiness that of the models' replicas and what is wrong.

    With `problems` it may be ready all the same, for a part of the requests.
    """

    status: Literal["ok", "ready", "not ready"]
    models: dict[str, ReplicaCounts] | None = None
    problems: tuple[str, ...] | None = None


_OK: Final = msgspec.json.encode(Health("ok"))


async def healthz(services: Services, exchange: HttpExchange) -> None:
    """Answer 200 as long as the process runs."""
    del services
    await exchange.respond(200, _OK)


async def readyz(services: Services, exchange: HttpExchange) -> None:
    """Answer 200 when every model has a replica (or none, by intention) and some tenant would be served, else 503.

    It says what is wrong, in either case, with counts and no addresses.
    """
    found = await services.readiness()
    models = {model.name: _counts(model) for model in services.catalog.models.values()}
    body = msgspec.json.encode(Health("ready" if found.ready else "not ready", models, found.problems or None))
    await exchange.respond(200 if found.ready else 503, body)


def _counts(model: ServedModel) -> ReplicaCounts:
    fleet = model.fleet
    return ReplicaCounts(len(fleet), fleet.ready_replicas, fleet.refused_replicas, model.at_zero)
