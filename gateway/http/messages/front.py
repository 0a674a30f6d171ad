"""One request to the Messages API."""

from typing import Final

from gateway.gateway import Gateway
from gateway.http.exchange import Exchange
from gateway.http.front import AnswerHead
from gateway.http.messages.body import MessagesBody
from gateway.http.messages.decoding import decode_body
from gateway.http.messages.manners import tell_rates
from gateway.http.messages.origins import Origin
from gateway.http.messages.renderer import MessageRenderer, Thoughts
from gateway.http.messages.thinking import thoughts_of, words_of
from gateway.http.messages.translation import translate
from gateway.tenancy.tenants.caller import Caller

#: Its name in a key's scope.
ENDPOINT: Final = "messages"


class MessagesFront:
    """A Front (gateway/http/front.py)."""

    endpoint = ENDPOINT

    def __init__(self, gateway: Gateway, exchange: Exchange) -> None:
        self._gateway = gateway
        self._exchange = exchange
        self._thoughts = Thoughts.SHOWN
        #: Where the chat's messages are from.
        self.origins: list[Origin] = []

    async def translate(self, caller: Caller, body: bytes) -> bytes:
        """As Front has it."""
        tell_rates(self._gateway, self._exchange)
        asked = decode_body(MessagesBody, body)
        translation = translate(asked, words_of(self._gateway.model(caller, asked.model)))
        self.origins, self._thoughts = translation.origins, thoughts_of(asked)
        return translation.body

    def renderer(self, head: AnswerHead) -> MessageRenderer:
        """As Front has it."""
        return MessageRenderer(head, self._thoughts)

    async def keep(self) -> None:
        """Nothing of it is kept."""
