"""The routes of the Responses API and of conversations."""

from typing import Final

from gateway.api.responses.compact import compact_response
from gateway.api.responses.conversation_endpoints import (
    add_items,
    create_conversation,
    delete_conversation,
    delete_item,
    get_conversation,
    get_item,
    list_items,
    update_conversation,
)
from gateway.api.responses.create import count_input_tokens, create_response
from gateway.api.responses.errors import RESPONSES_ERRORS
from gateway.api.responses.responses_adapter import ENDPOINT
from gateway.api.responses.stored import cancel_response, delete_response, get_response, list_input_items
from gateway.api.server.api_route import ApiRoute, Handler

_RESPONSE: Final = "/v1/responses/{response_id}"
_CONVERSATION: Final = "/v1/conversations/{conversation_id}"
_ITEM: Final = _CONVERSATION + "/items/{item_id}"


def _route(method: str, path: str, handler: Handler) -> ApiRoute:
    return ApiRoute(method, path, handler, ENDPOINT, RESPONSES_ERRORS)


ROUTES: Final = (
    _route("POST", "/v1/responses", create_response),
    _route("POST", "/v1/responses/input_tokens", count_input_tokens),
    _route("POST", "/v1/responses/compact", compact_response),
    _route("GET", _RESPONSE, get_response),
    _route("DELETE", _RESPONSE, delete_response),
    _route("POST", _RESPONSE + "/cancel", cancel_response),
    _route("GET", _RESPONSE + "/input_items", list_input_items),
    _route("POST", "/v1/conversations", create_conversation),
    _route("GET", _CONVERSATION, get_conversation),
    _route("POST", _CONVERSATION, update_conversation),
    _route("DELETE", _CONVERSATION, delete_conversation),
    _route("GET", _CONVERSATION + "/items", list_items),
    _route("POST", _CONVERSATION + "/items", add_items),
    _route("GET", _ITEM, get_item),
    _route("DELETE", _ITEM, delete_item),
)
