"""`POST /v1/tokenize` and `/v1/detokenize`, as in vLLM: here where the tokenizer is, else at an upstream.

Neither charges tokens. The gateway tokenizes a text as it would for an engine.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from gateway.api.openai.body_reading import read_body
from gateway.api.openai.chat import CHAT
from gateway.api.openai.prompt_texts import prompt_texts
from gateway.api.relay.forwarding import ForwardedRequest, bad_answer, forward, read_request
from gateway.api.server.api_route import ApiRoute
from gateway.api.server.body_decoder import BodyDecoder, unsupported
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.filtering.prompt_text import PromptText
from gateway.inference.prepare import INLINE_BYTES, encoded
from gateway.models.served_model import ServedModel
from gateway.tenancy.limits.limiter import Ask, Usage
from protos.errors import InvalidRequest
from protos.features import Feature

#: The endpoint's name in a key's scope.
ENDPOINT: Final = "tokenize"
MAX_TOKENS: Final = 4_000_000

_TokenId = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]


class TokenizeBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """The request body: a text, or a chat's messages and tools."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    prompt: str | None = None
    messages: list[msgspec.Raw] | None = None
    tools: list[msgspec.Raw] | None = None
    chat_template_kwargs: dict[str, msgspec.Raw] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The request body."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    tokens: Annotated[list[_TokenId], Meta(max_length=MAX_TOKENS)]


class Tokens(msgspec.Struct, frozen=True):
    """The ids of a text's tokens, and their texts where these were asked for."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class Text(msgspec.Struct, frozen=True):
    """The text of token ids."""

    prompt: str


class _Tokens(msgspec.Struct, frozen=True):
    tokens: list[_TokenId]
    count: int | None = None
    max_model_len: int | None = None
    token_strs: list[str] | None = None


_tokenize_decoder = BodyDecoder(TokenizeBody, {})
_detokenize_decoder = BodyDecoder(DetokenizeBody, {})
_tokens: Final = msgspec.json.Decoder(_Tokens)
_text: Final = msgspec.json.Decoder(Text)


async def tokenize(services: Services, exchange: HttpExchange) -> None:
    """Answer with the ids of a text's tokens. Raises errors with a status."""
    async with services.intake.open(exchange, ENDPOINT) as incoming:
        forwarded = await read_request(services, incoming, _tokenize_decoder, _texts)
        body, model = forwarded.body, forwarded.model
        if (body.prompt is None) is (body.messages is None):
            raise InvalidRequest("Expected either 'prompt' or 'messages'.", param="prompt")
        if model.opaque:
            answer = await _upstream_tokens(forwarded)
        else:
            ids = await _own_tokens(forwarded)
            strings = None
            if body.return_token_strs:
                strings = [data.decode("utf-8", "replace") for data in _bytes_of(model, ids)]
            answer = Tokens(len(ids), model.context, ids, strings)
    await exchange.respond(200, msgspec.json.encode(answer))


async def detokenize(services: Services, exchange: HttpExchange) -> None:
    """Answer with the text of token ids, control tokens included. Raises errors with a status."""
    found: list[Text] = []
    async with services.intake.open(exchange, ENDPOINT) as incoming:
        forwarded = await read_request(services, incoming, _detokenize_decoder, lambda _, __: [])
        body, model = forwarded.body, forwarded.model
        if model.opaque:

            async def read(_: int, answer: bytes) -> int | None:
                try:
                    found.append(_text.decode(answer))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    raise bad_answer("its answer is no text") from None
                return 0

            sent = [msgspec.json.encode(body)]
            await forward(
                forwarded, Feature.TOKENIZE, "/detokenize", sent, read, param="tokens", at_root=True, free=True
            )
        else:
            outside = next((at for at, token in enumerate(body.tokens) if token >= model.tokenizer.vocab_size), None)
            if outside is not None:
                at = f"tokens[{outside}]"
                raise InvalidRequest(f"Invalid value for '{at}': it is not in the vocabulary.", param=at)
            await _count(forwarded)
            found.append(Text(await _off_loop(forwarded, _text_of, model, body.tokens)))
    await exchange.respond(200, msgspec.json.encode(found[0]))


async def _own_tokens(forwarded: ForwardedRequest[TokenizeBody]) -> list[int]:
    body, model = forwarded.body, forwarded.model
    if body.add_generation_prompt is False:
        raise unsupported("add_generation_prompt")
    if body.prompt is not None:
        await _count(forwarded)
        ids: list[int] = await _off_loop(forwarded, model.tokenizer.encode, body.prompt, special=False)
        if body.add_special_tokens is not False and model.tokenizer.bos_id is not None:
            ids = [model.tokenizer.bos_id, *ids]
        return ids
    request = read_body(CHAT, _chat_of(body)).request(
        forwarded.incoming.caller, model, forwarded.incoming.exchange.record
    )
    if request.foreign is not None:
        raise request.foreign
    await _count(forwarded)
    prompt = await encoded(request, forwarded.services.encoding, forwarded.incoming.exchange.handle)
    return list(prompt.ids)


def _chat_of(body: TokenizeBody) -> bytes:
    """Make a chat's body with these messages."""
    chat: dict[str, Any] = {"model": body.model, "messages": body.messages}
    chat |= {} if body.tools is None else {"tools": body.tools}
    chat |= {} if body.chat_template_kwargs is None else {"chat_template_kwargs": body.chat_template_kwargs}
    return msgspec.json.encode(chat)


async def _count(forwarded: ForwardedRequest[Any]) -> None:
    """Charge one request without tokens. Raises RateLimited, QuotaExceeded or StoreUnavailable."""
    lease = await forwarded.services.limiter.reserve(Ask(forwarded.model.plans.of(forwarded.incoming.caller), 0, 0, 1))
    lease.settle(Usage(0, 0, 0))


async def _off_loop(forwarded: ForwardedRequest[Any], work: Any, *args: Any, **kwargs: Any) -> Any:
    """Do the work, for long texts off the event loop."""
    if forwarded.size <= INLINE_BYTES:
        return work(*args, **kwargs)
    handle, tenant = forwarded.incoming.exchange.handle, forwarded.incoming.caller.tenant.name
    return await forwarded.services.encoding.run(handle, tenant, work, *args, **kwargs)


async def _upstream_tokens(forwarded: ForwardedRequest[TokenizeBody]) -> Tokens:
    found: list[_Tokens] = []

    async def read(_: int, answer: bytes) -> int | None:
        try:
            found.append(_tokens.decode(answer))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise bad_answer("its answer is no list of tokens") from None
        return 0

    sent = [msgspec.json.encode(forwarded.body)]
    await forward(forwarded, Feature.TOKENIZE, "/tokenize", sent, read, param="prompt", at_root=True, free=True)
    upstream = found[0]
    longest = forwarded.model.context if upstream.max_model_len is None else upstream.max_model_len
    return Tokens(len(upstream.tokens), longest, upstream.tokens, upstream.token_strs)


def _bytes_of(model: ServedModel, tokens: list[int]) -> list[bytes]:
    names, table = {token: text.encode() for text, token in model.tokenizer.specials.items()}, model.table
    return [table.token_bytes(token) or names.get(token, b"") for token in tokens]


def _text_of(model: ServedModel, tokens: list[int]) -> str:
    text = b"".join(_bytes_of(model, tokens)).decode("utf-8", "replace")
    return text.removeprefix(" ") if model.tokenizer.strips_leading_space else text


def _texts(body: TokenizeBody, model: ServedModel) -> list[PromptText]:
    """List the texts that go to an upstream; those that stay here need no filter."""
    if not model.opaque:
        return []
    if body.prompt is not None:
        return [PromptText("user", "prompt", ("prompt",), body.prompt)]
    if body.messages is None:
        return []
    chat = _chat_of(body)
    return prompt_texts(read_body(CHAT, chat), chat, model)


ROUTES: Final = (
    ApiRoute("POST", "/v1/tokenize", tokenize, ENDPOINT),
    ApiRoute("POST", "/v1/detokenize", detokenize, ENDPOINT),
)
