"""Choose the writer of a generation's answer and write it."""

import time
from collections.abc import Coroutine
from functools import partial
from typing import Any

from gateway.api.openai.chat_renderer import ChatRenderer
from gateway.api.openai.completion_api import CompletionApi
from gateway.api.openai.pipeline import Pipeline
from gateway.api.relay.relay_answer import relay_answer
from gateway.api.relay.relay_target import RelayTarget
from gateway.api.relay.translated_relay import TranslatedRelay
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.served_headers import served_headers
from gateway.api.server.timing_headers import timing_headers
from gateway.api.writers.answer_details import DetailedChatRenderer, detailed_stream
from gateway.api.writers.api_adapter import AnswerHead, ApiAdapter, Renderer
from gateway.api.writers.chunk_encoder import ChunkEncoder
from gateway.api.writers.counted_encoder import CountedEncoder
from gateway.api.writers.guarded_stream import GuardedStream
from gateway.api.writers.parsed_encoder import ParsedEncoder, StreamEncoder, counts_of
from gateway.api.writers.stream_writer import stream_answer
from gateway.api.writers.whole_answer import collect
from gateway.api.writers.whole_choices import collect_choices
from gateway.inference.generation import Generation
from gateway.telemetry.answer_record import digest_shown
from routing.contracts.transport import Relay


def write_answer(pipeline: Pipeline, generation: Generation, adapter: ApiAdapter | None) -> Coroutine[Any, Any, None]:
    """Write the answer: relayed, streamed or whole. Awaiting it raises errors that can still be a status."""
    exchange, api, request = pipeline.incoming.exchange, pipeline.reading.api, generation.request
    digests = pipeline.services.digests
    if digests is not None:
        digest_shown(generation, digests)
    exchange.answer_headers = served_headers(generation, () if adapter is None else adapter.adjusted)
    relay = generation.stream.relay
    if adapter is None and relay is None and generation.answers is None and not request.stream:
        return _write_whole(exchange, api, generation, None, None)
    renderer = None if adapter is None else adapter.renderer(_head(exchange, generation))
    if relay is not None:
        target: RelayTarget = exchange
        if adapter is not None and renderer is not None:
            target = TranslatedRelay(exchange, generation, renderer, adapter)
        return _relay(pipeline, target, generation, relay)
    if renderer is None and generation.answers is not None:
        head, count = _head(exchange, generation), len(generation.sequences)
        usage = pipeline.reading.include_usage
        if request.details is None:
            renderer = ChatRenderer(api, request.model, head, count, usage=usage)
        else:
            renderer = DetailedChatRenderer(api, request.model, head, count, usage=usage, generation=generation)
    if request.stream:
        encoder = _encoder(pipeline, generation, renderer)
        if pipeline.reading.include_usage and pipeline.reading.fields.counts_always:
            encoder = CountedEncoder(encoder, partial(counts_of, generation))
        if request.details is not None:
            encoder = detailed_stream(encoder, generation, chat=api.opening is not None)
        checks = request.filter
        guarded = GuardedStream(generation, encoder, checks) if checks is not None and checks.guards else None
        paced = pipeline.services.describes or exchange.internal
        return stream_answer(exchange, generation, encoder, adapter, guarded, paced=paced)
    return _write_whole(exchange, api, generation, renderer, adapter)


async def _relay(pipeline: Pipeline, target: RelayTarget, generation: Generation, relay: Relay) -> None:
    digests = pipeline.services.digests
    digest = None if digests is None else digests.begin()
    await relay_answer(target, generation, relay, digest, include_usage=pipeline.include_usage)
    if digest is not None:
        pipeline.incoming.exchange.record.answer_hash = digest.hexdigest()


def _encoder(pipeline: Pipeline, generation: Generation, renderer: Renderer | None) -> StreamEncoder:
    if renderer is not None:
        return ParsedEncoder(generation, renderer)
    api, usage = pipeline.reading.api, pipeline.reading.include_usage
    answer_id = api.id_prefix + pipeline.incoming.exchange.request_id[4:]
    return ChunkEncoder(api, generation, answer_id, int(time.time()), usage=usage)


async def _write_whole(
    exchange: HttpExchange,
    api: CompletionApi,
    generation: Generation,
    renderer: Renderer | None,
    adapter: ApiAdapter | None,
) -> None:
    if renderer is None:
        answer = await collect(api, generation, api.id_prefix + exchange.request_id[4:], int(time.time()))
    else:
        choices = await collect_choices(generation)
        answer = renderer.whole(choices, counts_of(generation))
    # The lease must end before the client sends its next request, which may need the room.
    generation.close()
    exchange.unwatch()
    if adapter is not None:
        await adapter.store_answer()
    await exchange.respond(200, answer, headers=timing_headers(generation))


def _head(exchange: HttpExchange, generation: Generation) -> AnswerHead:
    request = generation.request
    return AnswerHead(
        suffix=exchange.request_id[4:],
        created=int(time.time()),
        model=request.model.shown,
        streamed=request.stream,
        fingerprint=generation.fingerprint,
        prompt_tokens=generation.prompt_tokens,
    )
