"""Endpoints without a key: `GET /healthz` (this worker runs), `/readyz` (it could serve a request), `/version`."""

from importlib.metadata import version
from typing import Final, Literal

import msgspec

from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.models.served_model import ServedModel
from protos.errors import InvalidRequest


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


class Version(msgspec.Struct, frozen=True):
    """The gateway's version."""

    version: str


async def show_version(services: Services, exchange: HttpExchange) -> None:
    """Answer with the version of the gateway."""
    del services
    await exchange.respond(200, msgspec.json.encode(Version(version("penstock"))))


async def readyz(services: Services, exchange: HttpExchange) -> None:
    """Answer 200 when every model has a replica (or none, by intention) and some tenant would be served, else 503.

    With `models=any` one such model is enough. It says what is wrong, in either case, with counts and no addresses.
    """
    asked = exchange.query.get("models", "all")
    if asked not in ("all", "any"):
        raise InvalidRequest("Invalid value for 'models': expected 'all' or 'any'.", param="models")
    found = await services.readiness()
    ready = found.ready if asked == "all" else found.ready_for_some
    models = {model.name: _counts(model) for model in services.catalog.models.values()}
    body = msgspec.json.encode(Health("ready" if ready else "not ready", models, found.problems or None))
    await exchange.respond(200 if ready else 503, body)


def _counts(model: ServedModel) -> ReplicaCounts:
    fleet = model.fleet
    return ReplicaCounts(len(fleet), fleet.ready_replicas, fleet.refused_replicas, model.at_zero)
