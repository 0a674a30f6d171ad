"""The API adapter of the Messages API."""

from typing import Final

from gateway.api.anthropic.anthropic_exchange import add_rate_headers
from gateway.api.anthropic.error_paths import Origin
from gateway.api.anthropic.messages_body import MessagesBody
from gateway.api.anthropic.messages_decoding import decode_body
from gateway.api.anthropic.messages_renderer import MessageRenderer, Thoughts
from gateway.api.anthropic.messages_translation import translate
from gateway.api.anthropic.thinking import shown_thoughts, template_variables
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.api.writers.api_adapter import AnswerHead
from gateway.tenancy.tenants.caller import Caller

#: The endpoint's name in a key's scope.
ENDPOINT: Final = "messages"


class MessagesAdapter:
    """The `ApiAdapter` of one request (gateway/api/writers/api_adapter.py)."""

    endpoint = ENDPOINT
    adjusted: tuple[str, ...] = ()

    def __init__(self, services: Services, exchange: HttpExchange) -> None:
        self._services = services
        self._exchange = exchange
        self._thoughts = Thoughts.SHOWN
        self._edited = False
        #: The places that the chat's messages come from.
        self.origins: list[Origin] = []
        self.tool_places: tuple[str, ...] = ()

    async def translate(self, caller: Caller, body: bytes) -> bytes:
        add_rate_headers(self._services, self._exchange)
        decoded = decode_body(MessagesBody, body)
        variables = template_variables(self._services.catalog.require(caller, decoded.model))
        drop = self._services.bounds.listen.unavailable_tools == "drop"
        translation = translate(decoded, variables, drop=drop)
        self.adjusted, self.tool_places = translation.tools.adjusted, translation.tools.places
        self.origins, self._thoughts = translation.origins, shown_thoughts(decoded)
        self._edited = decoded.context_management is not None
        return translation.body

    def renderer(self, head: AnswerHead) -> MessageRenderer:
        return MessageRenderer(head, self._thoughts, edited=self._edited)

    async def store_answer(self) -> None:
        """Store nothing."""
