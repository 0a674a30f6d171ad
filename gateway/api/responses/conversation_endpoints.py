"""Conversations and their items: `/v1/conversations` (OpenAI API reference, Conversations)."""

import secrets
import time
from typing import Annotated, Any, Final

import msgspec
import orjson
from msgspec import Meta

from gateway.api.openai.deleted import Deleted
from gateway.api.responses.chat_messages import Messages
from gateway.api.responses.client_json import encoded_json
from gateway.api.responses.items import kind_of, shown_items
from gateway.api.responses.metadata import Metadata
from gateway.api.responses.response_context import CONVERSATION_PREFIX, is_id
from gateway.api.responses.responses_adapter import ENDPOINT
from gateway.api.responses.responses_tools import ChatTools
from gateway.api.responses.stored import LIST_EXTRAS, MOST_LISTED, USUALLY_LISTED
from gateway.api.server.body_decoder import BodyDecoder
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.paging import page_object, parse_page
from gateway.api.server.services import Services
from gateway.jobs.responses.conversation_store import Conversation
from gateway.jobs.responses.response_store import NewItem
from gateway.tenancy.tenants.caller import Caller
from protos.errors import ConversationNotFound, InvalidRequest, UnsupportedParameter

#: Bound on the items that one request may add.
MAX_ITEMS: Final = 20

_Items = Annotated[list[dict[str, Any]], Meta(max_length=MAX_ITEMS)]


class NewConversation(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A conversation's first items and its metadata."""

    items: _Items | None = None
    metadata: Metadata | None = None


class UpdatedConversation(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A conversation's new metadata."""

    metadata: Metadata | None


class NewItems(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Items to append to a conversation."""

    items: _Items


_creating: Final = BodyDecoder(NewConversation, {})
_updating: Final = BodyDecoder(UpdatedConversation, {})
_adding: Final = BodyDecoder(NewItems, {})


async def create_conversation(services: Services, exchange: HttpExchange) -> None:
    """Create a conversation, optionally with its first items."""
    caller = await _caller(services, exchange)
    body = _creating.decode(await _body(services, exchange) or b"{}")
    suffix = secrets.token_hex(12)
    conversation = Conversation(CONVERSATION_PREFIX + suffix, int(time.time()), body.metadata or {})
    items = _new_items(body.items or [], suffix)
    await services.conversations.create(caller.tenant.name, conversation, _stored(items))
    await exchange.respond(200, _shown(conversation))


async def get_conversation(services: Services, exchange: HttpExchange) -> None:
    """Return a conversation without its items."""
    tenant, conversation_id = await _tenant_and_id(services, exchange)
    await exchange.respond(200, _shown(await services.conversations.get(tenant, conversation_id)))


async def update_conversation(services: Services, exchange: HttpExchange) -> None:
    """Replace a conversation's metadata."""
    tenant, conversation_id = await _tenant_and_id(services, exchange)
    body = _updating.decode(await _body(services, exchange))
    before = await services.conversations.get(tenant, conversation_id)
    changed = Conversation(before.id, before.created_at, body.metadata or {})
    await services.conversations.change(tenant, changed)
    await exchange.respond(200, _shown(changed))


async def delete_conversation(services: Services, exchange: HttpExchange) -> None:
    """Delete a conversation with its items; responses made with it stay."""
    tenant, conversation_id = await _tenant_and_id(services, exchange)
    await services.conversations.delete(tenant, conversation_id)
    await exchange.respond(200, msgspec.json.encode(Deleted(conversation_id, "conversation.deleted")))


async def list_items(services: Services, exchange: HttpExchange) -> None:
    """Return a page of a conversation's items."""
    tenant, conversation_id = await _tenant_and_id(services, exchange)
    page = parse_page(exchange.query, MOST_LISTED, USUALLY_LISTED, LIST_EXTRAS)
    order = "asc" if page.ascending else "desc"
    found, more = await services.conversations.page(tenant, conversation_id, order, page.limit, page.after)
    items = [orjson.loads(item) for item in found]
    await exchange.respond(200, orjson.dumps(page_object(items, more=more)))


async def add_items(services: Services, exchange: HttpExchange) -> None:
    """Append items to a conversation."""
    tenant, conversation_id = await _tenant_and_id(services, exchange)
    body = _adding.decode(await _body(services, exchange))
    items = _new_items(body.items, secrets.token_hex(12))
    await services.conversations.add(tenant, conversation_id, _stored(items))
    await exchange.respond(200, orjson.dumps(page_object(items, more=False)))


async def get_item(services: Services, exchange: HttpExchange) -> None:
    """Return one item."""
    tenant, conversation_id = await _tenant_and_id(services, exchange)
    item = await services.conversations.item(tenant, conversation_id, exchange.path_params["item_id"])
    await exchange.respond(200, item)


async def delete_item(services: Services, exchange: HttpExchange) -> None:
    """Delete one item."""
    tenant, conversation_id = await _tenant_and_id(services, exchange)
    left = await services.conversations.delete_item(tenant, conversation_id, exchange.path_params["item_id"])
    await exchange.respond(200, _shown(left))


async def _caller(services: Services, exchange: HttpExchange) -> Caller:
    caller = await services.intake.identify(exchange, ENDPOINT)
    if not services.bounds.responses.store:
        raise UnsupportedParameter("Conversations are not supported here, as none are kept.")
    return caller


async def _tenant_and_id(services: Services, exchange: HttpExchange) -> tuple[str, str]:
    """Return the caller's tenant and the id in the path. Raises ConversationNotFound for what cannot be an id."""
    caller = await _caller(services, exchange)
    conversation_id = exchange.path_params["conversation_id"]
    if not is_id(conversation_id, CONVERSATION_PREFIX):
        raise ConversationNotFound(f"Conversation with id '{conversation_id[:128]}' not found.")
    return caller.tenant.name, conversation_id


async def _body(services: Services, exchange: HttpExchange) -> bytes:
    """Read the body, within the bound on stored responses."""
    services.intake.admit(exchange)
    bounds = services.bounds
    return await exchange.body(min(bounds.listen.max_body_bytes, bounds.responses.max_bytes))


def _new_items(items: list[dict[str, Any]], suffix: str) -> list[dict[str, Any]]:
    """Make the items as they are shown, with new ids. Raises InvalidRequest or UnsupportedParameter."""
    checked = Messages(ChatTools({}))
    for position, item in enumerate(items):
        where = f"items[{position}]"
        if kind_of(item, where) == "item_reference":
            raise InvalidRequest(f"Invalid value for '{where}': a reference is no item.", param=where)
        checked.add(item, where)
    return shown_items(items, suffix, own_ids=False)


def _stored(items: list[dict[str, Any]]) -> list[NewItem]:
    return [NewItem(item["id"], encoded_json(item, "items")) for item in items]


def _shown(conversation: Conversation) -> bytes:
    return orjson.dumps(
        {
            "id": conversation.id,
            "object": "conversation",
            "created_at": conversation.created_at,
            "metadata": conversation.metadata,
        }
    )
