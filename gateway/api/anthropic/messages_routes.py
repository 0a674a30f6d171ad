"""`POST /v1/messages` and `POST /v1/messages/count_tokens` (Anthropic API reference, Messages).

`anthropic-version` and `anthropic-beta` are accepted and ignored: there is one version here.
"""

from typing import Final

from gateway.api.anthropic.anthropic_exchange import ERRORS, use_messages_format
from gateway.api.anthropic.count_tokens import count_tokens
from gateway.api.anthropic.error_paths import to_messages_error
from gateway.api.anthropic.messages_adapter import ENDPOINT, MessagesAdapter
from gateway.api.anthropic.messages_decoding import echo
from gateway.api.openai.chat import CHAT
from gateway.api.openai.infer import infer
from gateway.api.server.api_route import ApiRoute
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from protos.errors import PenstockError, RouteNotFound


async def create_message(services: Services, exchange: HttpExchange) -> None:
    """Answer a conversation. Raises errors that can still be a status."""
    use_messages_format(exchange)
    adapter = MessagesAdapter(services, exchange)
    try:
        await infer(services, exchange, CHAT, adapter)
    except PenstockError as error:
        if adapter.origins:
            to_messages_error(error, adapter.origins, adapter.tool_places)
        raise


async def refuse_path(services: Services, exchange: HttpExchange) -> None:
    """Refuse the paths of Anthropic's API that are not served here, such as batches of messages."""
    del services
    use_messages_format(exchange)
    raise RouteNotFound(f"{exchange.method} {echo(exchange.path)} is not supported here.")


ROUTES: Final = (
    ApiRoute("POST", "/v1/messages", create_message, ENDPOINT, ERRORS),
    ApiRoute("POST", "/v1/messages/count_tokens", count_tokens, ENDPOINT, ERRORS),
    ApiRoute("*", "/v1/messages/{rest:path}", refuse_path, ENDPOINT, ERRORS),
)
