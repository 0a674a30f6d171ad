"""Relay an upstream's answer to the client, in the API's own bytes, as it comes."""

from gateway.api.relay.relay_target import RelayTarget
from gateway.api.relay.screened_relay import relay_screened
from gateway.api.server.timing_headers import own_headers
from gateway.inference.generation import Generation
from gateway.telemetry.stream_pace import StreamPace
from observability.digests import TextDigest
from protos.errors import PenstockError
from routing.contracts.transport import Relay


async def relay_answer(
    exchange: RelayTarget,
    generation: Generation,
    relay: Relay,
    digest: TextDigest | None = None,
    *,
    include_usage: bool = False,
) -> None:
    """Relay the answer, or what filters leave of it. Raises PenstockError while that can still be a status.

    `include_usage`: the client wants the chunk with the counts at a stream's end. `digest` takes in what is sent.
    """
    if generation.request.filter is not None:
        await relay_screened(
            exchange, generation, relay, generation.request.filter, digest, include_usage=include_usage
        )
        return
    part = await relay.read()
    generation.stream.check()
    if digest is not None:
        digest.update_bytes(part)
    if relay.streamed:
        await exchange.start_stream()
    elif len(part) == relay.length:
        # The lease must end before the client sends its next request, which may need the room.
        generation.close()
        exchange.unwatch()
        await exchange.respond(200, part, headers=own_headers(generation))
        return
    else:
        await exchange.start_body(relay.length)
    try:
        await _pass_on(exchange, generation, relay, part, digest)
    except PenstockError as error:
        exchange.note_failure(error)
        # No client takes a body shorter than its length, or half a JSON, for a whole answer.
        await exchange.end(exchange.errors.event(error) if relay.streamed else b"")


async def _pass_on(
    exchange: RelayTarget, generation: Generation, relay: Relay, part: bytes, digest: TextDigest | None
) -> None:
    read, write, pace = relay.read, exchange.write, StreamPace(exchange.record)
    try:
        while part:
            await write(part)
            part = await read()
            if part:
                pace.event_received()
            if digest is not None:
                digest.update_bytes(part)
    finally:
        if relay.streamed:
            pace.end()
    generation.stream.check()
    generation.close()
    exchange.unwatch()
    await exchange.end()
