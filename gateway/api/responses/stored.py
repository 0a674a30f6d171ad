"""Stored responses: `/v1/responses/{id}`, its cancellation and its input (OpenAI API reference, Responses)."""

from typing import Any, Final

import msgspec
import orjson

from gateway.api.openai.deleted import Deleted
from gateway.api.responses.follow import follow
from gateway.api.responses.response_answer import RESPONSE_PREFIX
from gateway.api.responses.response_context import is_id, turn_items
from gateway.api.responses.response_status import cancelled, status_and_body
from gateway.api.responses.responses_adapter import ENDPOINT
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.paging import page_object, parse_page
from gateway.api.server.services import Services
from protos.errors import InvalidRequest, ItemNotFound, PreviousResponseNotFound, ResponseNotFound

#: Bound on a page's items, and the default.
MOST_LISTED: Final = 100
USUALLY_LISTED: Final = 20
#: Query parameters of a list that are accepted and ignored.
LIST_EXTRAS: Final = ("include", "include[]")


async def get_response(services: Services, exchange: HttpExchange) -> None:
    """Return a response; with `stream=true` the events of a background one, as they come."""
    tenant, response_id = await _tenant_and_id(services, exchange)
    query = exchange.query
    after, stream = _starting_after(query.get("starting_after")), query.get("stream", "false")
    if stream not in ("true", "false"):
        raise InvalidRequest("Invalid value for 'stream': expected true or false.", param="stream")
    if stream == "true":
        services.intake.admit(exchange)
        await follow(services, exchange, tenant, response_id, after)
        return
    _, response = status_and_body(await services.responses.get(tenant, response_id))
    await exchange.respond(200, response)


async def delete_response(services: Services, exchange: HttpExchange) -> None:
    """Delete a response, and end it if it still runs."""
    tenant, response_id = await _tenant_and_id(services, exchange)
    await services.responses.delete(tenant, response_id)
    await exchange.respond(200, msgspec.json.encode(Deleted(response_id, "response")))


async def cancel_response(services: Services, exchange: HttpExchange) -> None:
    """Cancel a background response; one that has ended stays as it is."""
    tenant, response_id = await _tenant_and_id(services, exchange)
    stored = await services.responses.get(tenant, response_id)
    if not stored.background:
        raise InvalidRequest("Cannot cancel a synchronous response.")
    if stored.goes_on:
        ended = cancelled(stored)
        if await services.responses.cancel(tenant, response_id, ended):
            await exchange.respond(200, ended)
            return
        stored = await services.responses.get(tenant, response_id)
    await exchange.respond(200, status_and_body(stored)[1])


async def list_input_items(services: Services, exchange: HttpExchange) -> None:
    """List the items that a response was made from: its context, then its input."""
    tenant, response_id = await _tenant_and_id(services, exchange)
    page = parse_page(exchange.query, MOST_LISTED, USUALLY_LISTED, LIST_EXTRAS)
    try:
        *earlier, turn = await services.responses.chain(tenant, response_id)
    except PreviousResponseNotFound as error:
        raise ResponseNotFound(error.message.replace("Previous response", "Response")) from None
    items = [item for one in earlier for item in turn_items(one)] + turn_items(turn, with_output=False)
    _make_ids_unique(items)
    if not page.ascending:
        items.reverse()
    start = 0
    if page.after:
        start = next((at + 1 for at, item in enumerate(items) if item["id"] == page.after), 0)
        if not start:
            raise ItemNotFound(f"Item with id '{page.after[:128]}' not found.", param="after")
    end = start + page.limit
    await exchange.respond(200, orjson.dumps(page_object(items[start:end], more=end < len(items))))


def _make_ids_unique(items: list[dict[str, Any]]) -> None:
    """Make repeated ids unique: clients send items again with their ids, and paging by ids must still end."""
    seen: dict[str, int] = {}
    for item in items:
        name = item["id"]
        while item["id"] in seen:
            seen[name] += 1
            item["id"] = f"{name}_{seen[name]}"
        seen[item["id"]] = 1


def _starting_after(given: str | None) -> int:
    if given is None:
        return -1
    if not given.isascii() or not given.isdigit() or len(given) > 15:
        raise InvalidRequest("Invalid value for 'starting_after': expected a whole number.", param="starting_after")
    return int(given)


async def _tenant_and_id(services: Services, exchange: HttpExchange) -> tuple[str, str]:
    """Return the caller's tenant and the id in the path. Raises ResponseNotFound for what cannot be an id."""
    caller = await services.intake.identify(exchange, ENDPOINT)
    response_id = exchange.path_params["response_id"]
    if not is_id(response_id, RESPONSE_PREFIX):
        raise ResponseNotFound(f"Response with id '{response_id[:128]}' not found.")
    return caller.tenant.name, response_id
