"""Endpoints of batches: create, list, get and cancel."""

from typing import Annotated, Final, Literal

import msgspec
import orjson
from msgspec import Meta

from gateway.api.server.api_route import ApiRoute
from gateway.api.server.body_decoder import BodyDecoder
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.paging import page_object, parse_page
from gateway.api.server.services import Services
from gateway.jobs.batches.batch_records import BatchRequest
from gateway.jobs.batches.reply import PATHS
from gateway.jobs.files.file_records import ExpiresAfter, checked_expiry
from protos.errors import InvalidRequest

ENDPOINT: Final = "batches"
_LONGEST_BODY: Final = 64 * 1024
_LONGEST_IDEMPOTENCY_KEY: Final = 255


class BatchBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The request body."""

    input_file_id: Annotated[str, Meta(min_length=1, max_length=128)]
    endpoint: Annotated[str, Meta(max_length=128)]
    completion_window: Literal["24h"]
    metadata: (
        Annotated[
            dict[
                Annotated[str, Meta(min_length=1, max_length=64)],
                Annotated[str, Meta(max_length=512)],
            ],
            Meta(max_length=16),
        ]
        | None
    ) = None
    output_expires_after: ExpiresAfter | None = None


_decoder = BodyDecoder(BatchBody, {})


async def create_batch(services: Services, exchange: HttpExchange) -> None:
    """Create a batch; its input is checked after the answer."""
    caller = await services.intake.caller(exchange, ENDPOINT)
    key = _idempotency_key(exchange)
    body = _decoder.decode(await exchange.body(_LONGEST_BODY))
    if body.endpoint not in PATHS:
        raise InvalidRequest(f"Invalid value for 'endpoint': expected one of {', '.join(PATHS)}.", param="endpoint")
    keep = None
    if body.output_expires_after is not None:
        keep = checked_expiry(body.output_expires_after.seconds, "output_expires_after.seconds")
    tenant = caller.tenant.name
    record = await services.files.get(tenant, body.input_file_id, "input_file_id")
    if record.purpose != "batch":
        raise InvalidRequest(
            f"Invalid value for 'input_file_id': the file's purpose is '{record.purpose}'; expected 'batch'.",
            param="input_file_id",
        )
    request = BatchRequest(body.input_file_id, body.endpoint, caller.key.key_id, body.metadata, keep)
    batch = await services.jobs.create(tenant, request, key)
    await exchange.respond(200, orjson.dumps(batch.shown()))


async def list_batches(services: Services, exchange: HttpExchange) -> None:
    """List a page of the tenant's batches."""
    caller = await services.intake.caller(exchange, ENDPOINT)
    page = parse_page(exchange.query, 100, 20)
    batches, more = await services.jobs.page(caller.tenant.name, page)
    await exchange.respond(200, orjson.dumps(page_object([batch.shown() for batch in batches], more=more)))


async def get_batch(services: Services, exchange: HttpExchange) -> None:
    """Return one batch in its present state."""
    caller = await services.intake.caller(exchange, ENDPOINT)
    batch = await services.jobs.get(caller.tenant.name, exchange.path_params["batch_id"])
    await exchange.respond(200, orjson.dumps(batch.shown()))


async def cancel_batch(services: Services, exchange: HttpExchange) -> None:
    """Begin to cancel a batch; results until then are kept."""
    caller = await services.intake.caller(exchange, ENDPOINT)
    batch = await services.jobs.cancel(caller.tenant.name, exchange.path_params["batch_id"])
    await exchange.respond(200, orjson.dumps(batch.shown()))


def _idempotency_key(exchange: HttpExchange) -> str | None:
    raw = exchange.header(b"idempotency-key")
    if raw is None:
        return None
    if not 1 <= len(raw) <= _LONGEST_IDEMPOTENCY_KEY:
        raise InvalidRequest(
            f"Invalid value for 'Idempotency-Key': expected 1 to {_LONGEST_IDEMPOTENCY_KEY} characters.",
            param="Idempotency-Key",
        )
    return raw.decode("latin-1")


ROUTES: Final = (
    ApiRoute("POST", "/v1/batches", create_batch, ENDPOINT),
    ApiRoute("GET", "/v1/batches", list_batches, ENDPOINT),
    ApiRoute("GET", "/v1/batches/{batch_id}", get_batch, ENDPOINT),
    ApiRoute("POST", "/v1/batches/{batch_id}/cancel", cancel_batch, ENDPOINT),
)
