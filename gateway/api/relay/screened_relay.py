"""Relay an upstream's answer as filters allow."""

from typing import Final

from gateway.api.relay.answer_texts import AnswerTexts
from gateway.api.relay.relay_target import RelayTarget
from gateway.api.relay.relayed_strings import unreadable
from gateway.api.relay.screened_answer import screened_answer
from gateway.api.relay.screened_events import ScreenedEvents
from gateway.api.server.timing_headers import own_headers
from gateway.api.writers.chunk_encoder import usage_fields
from gateway.filtering.filters.answer_filter import AnswerFilter
from gateway.inference.generation import Generation
from gateway.telemetry.stream_pace import StreamPace
from observability.digests import TextDigest
from protos.errors import PenstockError
from routing.contracts.transport import Relay

#: Bound on an answer in one piece; a longer one cannot be screened and is not sent.
MOST_BYTES: Final = 16 * 1024 * 1024


async def relay_screened(
    exchange: RelayTarget,
    generation: Generation,
    relay: Relay,
    filter_: AnswerFilter,
    digest: TextDigest | None,
    *,
    include_usage: bool,
) -> None:
    """Relay what may be shown. Raises PenstockError while that can still be a status.

    An answer that cannot be screened, because it is not in the API's form or too long, fails, whatever the policy on
    failing filters.
    """
    texts = AnswerTexts(filter_)
    try:
        if relay.streamed:
            await _stream(exchange, generation, relay, texts, digest, include_usage=include_usage)
        else:
            body = await _gathered(relay)
            generation.stream.check()
            answer = await screened_answer(body, texts)
            if digest is not None:
                digest.update_bytes(answer)
            generation.close()
            exchange.unwatch()
            await exchange.respond(200, answer, headers=own_headers(generation))
    finally:
        filter_.record(texts.sources)


async def _gathered(relay: Relay) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := await relay.read():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise unreadable(f"its answer is longer than {MOST_BYTES} bytes")
    return b"".join(parts)


async def _stream(
    exchange: RelayTarget,
    generation: Generation,
    relay: Relay,
    texts: AnswerTexts,
    digest: TextDigest | None,
    *,
    include_usage: bool,
) -> None:
    request = generation.request
    # A completion with several prompts has more choices; their number is not known here.
    several = request.foreign is not None and request.foreign.param == "prompt"
    events = ScreenedEvents(texts, None if several else request.sampling.n, usage=include_usage)
    part = await relay.read()
    generation.stream.check()
    body = await events.feed(part)
    pace = StreamPace(exchange.record)
    await exchange.start_stream()
    try:
        while part and not events.cut:
            if body:
                if digest is not None:
                    digest.update_bytes(body)
                await exchange.write(body)
            else:
                pace.event_held()
            part = await relay.read()
            if part:
                pace.event_received()
            body = await events.feed(part) if part else b""
        if events.cut:
            body += events.closing(usage_fields(generation.usage))
        else:
            generation.stream.check()
            body = await events.end()
        if digest is not None:
            digest.update_bytes(body)
        generation.close()
        exchange.unwatch()
        await exchange.end(body)
    except PenstockError as error:
        exchange.note_failure(error)
        await exchange.end(exchange.errors.event(error))
    finally:
        pace.end()
