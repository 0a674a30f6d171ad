"""`POST /v1/messages/count_tokens`: count a prompt's tokens here where the tokenizer is, else at an upstream.

It counts as one request of its caller's limits, with no tokens.
"""

import msgspec
import orjson

from gateway.api.anthropic.anthropic_exchange import add_rate_headers, use_messages_format
from gateway.api.anthropic.error_paths import to_messages_error
from gateway.api.anthropic.messages_adapter import ENDPOINT
from gateway.api.anthropic.messages_body import PromptBody
from gateway.api.anthropic.messages_decoding import decode_body
from gateway.api.anthropic.messages_translation import translate_prompt
from gateway.api.anthropic.thinking import template_variables
from gateway.api.openai.body_reading import read_body
from gateway.api.openai.chat import CHAT
from gateway.api.relay.forwarding import ForwardedRequest, bad_answer, forward
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.served_headers import adjusted_headers
from gateway.api.server.services import Services
from gateway.inference.generate_request import GenerateRequest
from gateway.inference.prepare import encoded
from gateway.tenancy.limits.limiter import Ask, Usage
from protos.errors import PenstockError, UnsupportedParameter
from protos.features import Feature


class _Counted(msgspec.Struct, frozen=True):
    """An upstream's count."""

    count: int


_counted = msgspec.json.Decoder(_Counted)


async def count_tokens(services: Services, exchange: HttpExchange) -> None:
    """Answer with the number of tokens. Raises errors with a status."""
    use_messages_format(exchange)
    async with services.intake.open(exchange, ENDPOINT) as incoming:
        add_rate_headers(services, exchange)
        body = decode_body(PromptBody, await incoming.body())
        model = incoming.model(body.model)
        incoming.begin()
        translation = translate_prompt(
            body, template_variables(model), drop=services.bounds.listen.unavailable_tools == "drop"
        )
        forwarded = ForwardedRequest(services, incoming, model, body, len(translation.body))
        try:
            # Checked like a chat, whoever counts it.
            request = read_body(CHAT, translation.body).request(incoming.caller, model, exchange.record)
            if model.opaque:
                count = await _upstream_count(forwarded, translation.body)
            else:
                count = await _own_count(forwarded, request)
        except PenstockError as error:
            to_messages_error(error, translation.origins, translation.tools.places)
            raise
    told = adjusted_headers(translation.tools.adjusted)
    await exchange.respond(200, orjson.dumps({"input_tokens": count}), headers=told)


async def _own_count(forwarded: ForwardedRequest[PromptBody], request: GenerateRequest) -> int:
    services, exchange = forwarded.services, forwarded.incoming.exchange
    if request.foreign is not None:
        raise request.foreign
    lease = await services.limiter.reserve(Ask(forwarded.model.plans.of(forwarded.incoming.caller), 0, 0, 1))
    lease.settle(Usage(0, 0, 0))
    return (await encoded(request, services.encoding, exchange.handle)).tokens


async def _upstream_count(forwarded: ForwardedRequest[PromptBody], chat: bytes) -> int:
    policy = forwarded.services.policies.of(forwarded.incoming.caller.tenant, forwarded.model.name)
    if policy is not None and policy.reads_prompts:
        # Only the filtered prompt may go to an upstream, and it is not known before filtering.
        raise UnsupportedParameter(
            f"Prompts for '{forwarded.model.shown}' are filtered, and cannot be counted by its upstream.", param="model"
        )
    found: list[int] = []

    async def read(_: int, answer: bytes) -> int:
        try:
            found.append(_counted.decode(answer).count)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise bad_answer("its answer is no count of tokens") from None
        return 0

    members = msgspec.json.decode(chat)
    sent = {name: members[name] for name in ("model", "messages", "tools") if name in members}
    body = msgspec.json.encode(sent)
    await forward(forwarded, Feature.TOKENIZE, "/tokenize", [body], read, param="messages", at_root=True, free=True)
    return found[0]
