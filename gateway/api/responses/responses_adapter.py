"""The API adapter of the Responses API."""

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import orjson

from gateway.api.openai.chat import CHAT
from gateway.api.responses.client_json import encoded_json
from gateway.api.responses.errors import Origins
from gateway.api.responses.items import items_of, shown_items
from gateway.api.responses.response_answer import RESPONSE_PREFIX, ResponseForm
from gateway.api.responses.response_context import items_before, resolved
from gateway.api.responses.responses_body import CreateBody, read_create
from gateway.api.responses.responses_renderer import ResponseRenderer
from gateway.api.responses.responses_tools import ChatTools, chat_tools
from gateway.api.responses.responses_translation import chat_body
from gateway.api.server.services import Services
from gateway.api.writers.api_adapter import AnswerHead
from gateway.jobs.responses.response_store import Addition, NewItem
from gateway.tenancy.tenants.caller import Caller
from gateway.text.sequence_text import TokenEntry
from protos.errors import InvalidRequest, StoreUnavailable, UnsupportedParameter

log = logging.getLogger(__name__)

ENDPOINT = "responses"
_NOT_KEPT: Final = "The gateway's store could not keep the response. Try again shortly, or with 'store' false."


class InBackground(Exception):
    """The request is to be answered in the background."""


class ResponsesAdapter:
    """The `ApiAdapter` of `POST /v1/responses`; `suffix` ends the ids of the response and of its items."""

    endpoint = ENDPOINT

    def __init__(self, services: Services, suffix: str) -> None:
        self._services = services
        self.id = RESPONSE_PREFIX + suffix
        self.suffix = suffix
        self.caller: Caller
        self.body: CreateBody
        self.tools = ChatTools({})
        #: Set once there is a chat.
        self.origins: Origins | None = None
        self.adjusted: tuple[str, ...] = ()
        self.stored = False
        #: The input, as it is stored.
        self.items: list[dict[str, Any]] = []
        self.given = b""
        self.chat = b""
        self._renderer: ResponseRenderer | None = None

    async def translate(self, caller: Caller, body: bytes) -> bytes:
        """Translate the request. Raises InBackground once that is known to be asked for and possible."""
        self.caller, self.body = caller, read_create(body)
        self._decide()
        services, tenant, request = self._services, caller.tenant.name, self.body
        before = await items_before(services.responses, services.conversations, tenant, request)
        self.items = await resolved(services.responses, tenant, before, items_of(request.input))
        stream = bool(request.stream) or bool(request.background)
        drop = services.bounds.listen.unavailable_tools == "drop"
        self.tools = chat_tools(request.tools, request.tool_choice, drop=drop)
        self.adjusted = self.tools.adjusted
        self.chat, self.origins = chat_body(request, self.tools, before, self.items, stream=stream)
        # The answer repeats them, so values that cannot be encoded are refused before they cost a generation.
        encoded_json([request.tools, request.tool_choice, msgspec.to_builtins(request.text)])
        if self.stored or request.conversation is not None:
            self.given = encoded_json(self.items, "input")
        if self.stored:
            most = services.responses.bounds.max_bytes
            if len(self.given) > most:
                raise InvalidRequest(
                    f"The input is longer than the {most} bytes that are kept; 'store' may be false.", param="input"
                )
        if self.stored or request.conversation is not None:
            await services.responses.require()
        if request.background:
            raise InBackground
        return self.chat

    def _decide(self) -> None:
        """Decide whether the response is stored. Raises InvalidRequest or UnsupportedParameter."""
        request = self.body
        enabled = self._services.responses.bounds.store
        self.stored = enabled and request.store is not False
        if not enabled:
            for name, wanted in (
                ("store", request.store),
                ("background", request.background),
                ("previous_response_id", request.previous_response_id),
                ("conversation", request.conversation),
            ):
                if wanted:
                    raise UnsupportedParameter(
                        f"Unsupported parameter: '{name}' is not supported here, as no responses are kept.", param=name
                    )
        if request.background and not self.stored:
            raise InvalidRequest("Background mode requires 'store' to be true.", param="store")

    def form(self, created: int, model: str) -> ResponseForm:
        """Make the form that the response is written in."""
        return ResponseForm(self.body, self.suffix, created, model, stored=self.stored)

    def renderer(self, head: AnswerHead) -> ResponseRenderer:
        form, namespaced = self.form(head.created, head.model), self.tools.namespaced
        self._renderer = ResponseRenderer(form, self.logprobs_of(head.model), namespaced)
        return self._renderer

    def logprobs_of(self, model: str) -> "_Logprobs":
        """Make the writer of a model's logprobs."""
        return _Logprobs(self._services, self.caller, model)

    def addition(self, output: Sequence[dict[str, Any]]) -> Addition | None:
        """Make the response's addition to its conversation, if it has one."""
        conversation = self.body.conversation_id
        if conversation is None:
            return None
        items = [*shown_items(self.items, self.suffix, own_ids=False), *output]
        return Addition(conversation, [NewItem(item["id"], orjson.dumps(item)) for item in items])

    async def store_answer(self) -> None:
        """Store the response, which says that it is stored, and add it to its conversation. Raises PenstockError."""
        renderer = self._renderer
        if renderer is None or not renderer.final:
            return
        services, tenant = self._services, self.caller.tenant.name
        addition = self.addition(renderer.output)
        try:
            if self.stored:
                previous = self.body.previous_response_id or ""
                await services.responses.put(
                    tenant, self.id, renderer.outcome.status, previous, self.given, renderer.final, addition
                )
            elif addition is not None:
                await services.conversations.add(tenant, addition.conversation, addition.items)
        except StoreUnavailable as error:
            log.warning("the response %s of tenant %s could not be kept: %s", self.id, tenant, error.__cause__ or error)
            raise StoreUnavailable(_NOT_KEPT) from error.__cause__


class _Logprobs:
    """Writes logprobs; looks the model up only if there are any."""

    def __init__(self, services: Services, caller: Caller, model: str) -> None:
        self._services = services
        self._caller = caller
        self._model = model

    def __call__(self, entries: Sequence[TokenEntry]) -> list[dict[str, Any]]:
        model = self._services.catalog.require(self._caller, self._model)
        shown: list[dict[str, Any]] = CHAT.logprobs(list(entries), model, 0)["content"]
        return shown
