"""Endpoints of files: upload, list, get, read and delete."""

from typing import Final, cast

import msgspec
import orjson

from gateway.api.files.upload_form import OVERHEAD_BYTES, Form
from gateway.api.openai.deleted import Deleted
from gateway.api.server.api_route import ApiRoute
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.paging import page_object, parse_page
from gateway.api.server.services import Services
from gateway.jobs.files.file_records import PURPOSES, UPLOADED, Purpose, checked_expiry
from protos.errors import BodyTooLarge, InvalidRequest

ENDPOINT: Final = "files"
_MOST_LISTED: Final = 10_000
_OCTETS: Final = b"application/octet-stream"
_FIELDS: Final = ("purpose", "expires_after[anchor]", "expires_after[seconds]")


async def upload_file(services: Services, exchange: HttpExchange) -> None:
    """Receive a file as it comes; store it only if it came whole."""
    caller = await services.intake.caller(exchange, ENDPOINT)
    files, tenant = services.files, caller.tenant.name
    most = files.settings.max_file_bytes
    form = Form(exchange.header(b"content-type"))
    new = files.upload(tenant)

    async def take(data: bytes) -> None:
        if new.content.size + len(data) > most:
            raise BodyTooLarge(f"The file is longer than the limit of {most} bytes.", param="file")
        # Checked before the content: nobody should send 100 MB to learn of an error in the fields before it.
        _check(form.fields, whole=False)
        await new.content.write(data)

    try:
        await form.read(exchange.parts(most + OVERHEAD_BYTES), take)
        purpose, seconds = _check(form.fields, whole=True)
        if not new.content.size:
            raise InvalidRequest("Invalid value for 'file': it is empty.", param="file")
        record = await files.finish(new, cast("str", form.filename), purpose, seconds)
    finally:
        await new.content.abort()
    await exchange.respond(200, orjson.dumps(record.shown()))


async def list_files(services: Services, exchange: HttpExchange) -> None:
    """List a page of the tenant's files."""
    caller = await services.intake.caller(exchange, ENDPOINT)
    query = exchange.query
    page, purpose = parse_page(query, _MOST_LISTED, 100, ("purpose",)), query.get("purpose")
    if purpose is not None and purpose not in PURPOSES:
        raise InvalidRequest(f"Invalid value for 'purpose': expected one of {', '.join(PURPOSES)}.", param="purpose")
    records, more = await services.files.page(caller.tenant.name, page, purpose)
    await exchange.respond(200, orjson.dumps(page_object([record.shown() for record in records], more=more)))


async def get_file(services: Services, exchange: HttpExchange) -> None:
    """Return one file's object."""
    caller = await services.intake.caller(exchange, ENDPOINT)
    record = await services.files.get(caller.tenant.name, exchange.path_params["file_id"])
    await exchange.respond(200, orjson.dumps(record.shown()))


async def get_content(services: Services, exchange: HttpExchange) -> None:
    """Return one file's content."""
    caller = await services.intake.caller(exchange, ENDPOINT)
    tenant = caller.tenant.name
    record = await services.files.get(tenant, exchange.path_params["file_id"])
    pieces = services.files.pieces(tenant, record)
    # Read the first piece before the status goes out: a failure can then still be a status.
    first = await anext(pieces, b"")
    await exchange.start_body(record.bytes, _OCTETS)
    await exchange.write(first)
    async for piece in pieces:
        await exchange.write(piece)
    await exchange.end()


async def delete_file(services: Services, exchange: HttpExchange) -> None:
    """Delete a file and its content."""
    caller = await services.intake.caller(exchange, ENDPOINT)
    file_id = exchange.path_params["file_id"]
    await services.files.delete(caller.tenant.name, file_id)
    await exchange.respond(200, msgspec.json.encode(Deleted(file_id, "file")))


def _check(fields: dict[str, str], *, whole: bool) -> tuple[Purpose, int | None]:
    """Check the fields; return the purpose, and the file's lifetime if given; `whole`: no fields are to come."""
    for name in fields:
        if name not in _FIELDS:
            raise InvalidRequest(f"Unrecognized request argument supplied: {name[:64]}", param=name[:64])
    purpose = fields.get("purpose")
    if purpose is None and whole:
        raise InvalidRequest("Missing required parameter: 'purpose'.", param="purpose")
    if purpose is not None and purpose not in UPLOADED:
        raise InvalidRequest(f"Invalid value for 'purpose': expected {' or '.join(UPLOADED)}.", param="purpose")
    return cast("Purpose", purpose), _expiry(fields) if whole else None


def _expiry(fields: dict[str, str]) -> int | None:
    anchor, seconds = fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        raise InvalidRequest("Invalid value for 'expires_after[anchor]': expected created_at.", param="expires_after")
    number = int(seconds) if seconds is not None and seconds.isdecimal() and len(seconds) < 10 else 0
    return checked_expiry(number, "expires_after[seconds]")


ROUTES: Final = (
    ApiRoute("POST", "/v1/files", upload_file, ENDPOINT),
    ApiRoute("GET", "/v1/files", list_files, ENDPOINT),
    ApiRoute("GET", "/v1/files/{file_id}", get_file, ENDPOINT),
    ApiRoute("DELETE", "/v1/files/{file_id}", delete_file, ENDPOINT),
    ApiRoute("GET", "/v1/files/{file_id}/content", get_content, ENDPOINT),
)
