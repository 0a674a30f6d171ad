"""`POST /v1/responses` and `POST /v1/responses/input_tokens` (OpenAI API reference, Responses)."""

import orjson

from gateway.api.openai.body_reading import read_body
from gateway.api.openai.chat import CHAT
from gateway.api.openai.infer import infer
from gateway.api.responses.background_responses import start_in_background
from gateway.api.responses.client_json import encoded_json
from gateway.api.responses.errors import Origins, to_responses_error
from gateway.api.responses.follow import follow
from gateway.api.responses.items import items_of
from gateway.api.responses.response_context import items_before, resolved
from gateway.api.responses.responses_adapter import ENDPOINT, InBackground, ResponsesAdapter
from gateway.api.responses.responses_body import read_prompting
from gateway.api.responses.responses_tools import chat_tools
from gateway.api.responses.responses_translation import chat_fields
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.served_headers import adjusted_headers
from gateway.api.server.services import Services
from gateway.inference.prepare import encoded
from gateway.tenancy.limits.limiter import Ask, Usage
from protos.errors import InvalidRequest, PenstockError, UnsupportedParameter


async def create_response(services: Services, exchange: HttpExchange) -> None:
    """Answer whole or as events, or start in the background. Raises errors with a status."""
    adapter = ResponsesAdapter(services, exchange.request_id[4:])
    try:
        try:
            await infer(services, exchange, CHAT, adapter)
        except InBackground:
            if exchange.explain is not None:
                raise InvalidRequest(
                    "Where a response in the background goes is not explained.", param="background"
                ) from None
            queued, adjusted = await start_in_background(services, adapter)
            exchange.answer_headers = adjusted_headers(adjusted)
            if adapter.body.stream:
                await follow(services, exchange, adapter.caller.tenant.name, adapter.id)
            else:
                await exchange.respond(200, queued)
    except PenstockError as error:
        raise to_responses_error(error, adapter.origins) from error.__cause__


async def count_input_tokens(services: Services, exchange: HttpExchange) -> None:
    """Count the tokens of a request's prompt. Raises errors with a status."""
    async with services.intake.open(exchange, ENDPOINT) as incoming:
        body, caller = read_prompting(await incoming.body()), incoming.caller
        before = await items_before(services.responses, services.conversations, caller.tenant.name, body)
        items = await resolved(services.responses, caller.tenant.name, before, items_of(body.input))
        incoming.begin()
        origins: Origins | None = None
        try:
            tools = chat_tools(body.tools, body.tool_choice, drop=services.bounds.listen.unavailable_tools == "drop")
            fields, origins = chat_fields(body, tools, before, items)
            reading = read_body(CHAT, encoded_json(fields))
            model = incoming.model(body.model)
            request = reading.request(caller, model, exchange.record)
            if request.opaque:
                raise request.foreign or UnsupportedParameter(
                    f"The tokens of the model '{model.shown}' cannot be counted here.", param="model"
                )
            # It counts as one request without tokens, as for a chat.
            lease = await services.limiter.reserve(Ask(model.plans.of(caller), 0, 0, 1))
            lease.settle(Usage(0, 0, 0))
            prompt = await encoded(request, services.encoding, exchange.handle)
        except PenstockError as error:
            raise to_responses_error(error, origins) from error.__cause__
    counted = orjson.dumps({"object": "response.input_tokens", "input_tokens": prompt.tokens})
    await exchange.respond(200, counted, headers=adjusted_headers((*tools.adjusted, *request.adjusted)))
