"""`POST /v1/responses/compact` (OpenAI API reference, Responses): make a conversation shorter.

The model writes a summary; what is answered are the user's messages as they came, and the summary as one item, which
later requests take as input (gateway/api/responses/compaction_item.py). Nothing is stored.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
import orjson
from msgspec import Meta

from gateway.api.openai.chat import CHAT
from gateway.api.openai.extension_params import Api, taken
from gateway.api.openai.infer import infer
from gateway.api.responses.client_json import encoded_json
from gateway.api.responses.compaction_item import PREFIX, compaction_item
from gateway.api.responses.errors import Origins, to_responses_error
from gateway.api.responses.items import items_of, shown_items
from gateway.api.responses.response_answer import RESPONSE_PREFIX, Outcome, usage_of
from gateway.api.responses.response_context import items_before, resolved
from gateway.api.responses.responses_adapter import ENDPOINT
from gateway.api.responses.responses_body import MAX_ITEMS, Prompting, Reasoning
from gateway.api.responses.responses_renderer import ResponseRenderer
from gateway.api.responses.responses_tools import ChatTools
from gateway.api.responses.responses_translation import chat_fields
from gateway.api.server.body_decoder import BodyDecoder
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.api.writers.api_adapter import AnswerHead, Counts
from gateway.tenancy.tenants.caller import Caller
from protos.errors import ContentFiltered, PenstockError, ReplicaFailed, UnsupportedParameter

#: The request for a summary, which ends the conversation.
ASKED: Final = (
    "Write a summary of this conversation for somebody who will go on with it. Say what was asked for and why, which "
    "wishes still hold, what was found out and decided, what was done and with which result, and what is still to be "
    "done. Keep the names, figures, paths and lines of code that matter as they are. Write the summary alone."
)


class CompactBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The request body. Coding agents send `tools`, `parallel_tool_calls` and `text` of the conversation along: a
    summary calls nothing, and has no form.
    """

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    input: str | Annotated[list[dict[str, Any]], Meta(max_length=MAX_ITEMS)] | None = None
    instructions: str | None = None
    previous_response_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    reasoning: Reasoning | None = None
    prompt_cache_key: Annotated[str, Meta(max_length=512)] | None = None
    safety_identifier: Annotated[str, Meta(max_length=512)] | None = None
    tools: list[dict[str, Any]] | None = None
    parallel_tool_calls: bool | None = None
    text: dict[str, Any] | None = None


_decoder: Final = BodyDecoder(CompactBody, taken(Api.RESPONSES, CompactBody.__struct_fields__))


async def compact_response(services: Services, exchange: HttpExchange) -> None:
    """Answer with the compacted conversation. Raises errors with a status."""
    adapter = CompactionAdapter(services, exchange.request_id[4:])
    try:
        await infer(services, exchange, CHAT, adapter)
    except PenstockError as error:
        raise to_responses_error(error, adapter.origins) from error.__cause__


class CompactionAdapter:
    """The `ApiAdapter` of one compaction; `suffix` ends its ids."""

    endpoint = ENDPOINT
    adjusted: tuple[str, ...] = ()

    def __init__(self, services: Services, suffix: str) -> None:
        self._services = services
        self._suffix = suffix
        #: Set once there is a chat.
        self.origins: Origins | None = None
        #: The user's messages, as they are shown.
        self._kept: list[dict[str, Any]] = []

    async def translate(self, caller: Caller, body: bytes) -> bytes:
        """Translate the request: the conversation, and the question for a summary."""
        given, services, tenant = _decoder.decode(body), self._services, caller.tenant.name
        if given.previous_response_id is not None and not services.responses.bounds.store:
            raise UnsupportedParameter(
                "Unsupported parameter: 'previous_response_id' is not supported here, as no responses are kept.",
                param="previous_response_id",
            )
        prompting = Prompting(
            model=given.model,
            input=given.input,
            instructions=given.instructions,
            previous_response_id=given.previous_response_id,
            reasoning=given.reasoning,
        )
        prompting.check()
        before = await items_before(services.responses, services.conversations, tenant, prompting)
        items = await resolved(services.responses, tenant, before, items_of(given.input))
        fields, self.origins = chat_fields(prompting, ChatTools({}), before, items)
        fields["messages"].append({"role": "user", "content": ASKED})
        for name in ("prompt_cache_key", "safety_identifier"):
            if (value := getattr(given, name)) is not None:
                fields[name] = value
        shown = [*before, *shown_items(items, self._suffix)]
        self._kept = [item for item in shown if item["type"] == "message" and item["role"] == "user"]
        return encoded_json(fields)

    def renderer(self, head: AnswerHead) -> ResponseRenderer:
        return ResponseRenderer(CompactedForm(self._suffix, head.created, self._kept), lambda entries: [])

    async def store_answer(self) -> None:
        """Store nothing: the client has all of it."""


class CompactedForm:
    """The JSON of a compacted conversation, in place of the response that a summary would be."""

    def __init__(self, suffix: str, created: int, kept: Sequence[dict[str, Any]]) -> None:
        """`kept` are the items that come before the summary."""
        self.suffix = suffix
        self._created = created
        self._kept = kept

    def write(self, outcome: Outcome, output: Sequence[dict[str, Any]] = (), counts: Counts | None = None) -> bytes:
        """Encode it. Raises ContentFiltered or ReplicaFailed where the answer is no whole summary."""
        texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
        summary = "".join(texts).strip()
        if outcome.reason == "content_filter":
            raise ContentFiltered("The summary of the conversation was cut off by a content filter.", param="input")
        if outcome.status != "completed" or not summary or counts is None:
            raise ReplicaFailed("The model gave no whole summary of the conversation.")
        fields = {
            "id": RESPONSE_PREFIX + self.suffix,
            "object": "response.compaction",
            "created_at": self._created,
            "output": [*self._kept, compaction_item(f"{PREFIX}{self.suffix}", summary)],
            "usage": usage_of(counts),
        }
        return orjson.dumps(fields)
