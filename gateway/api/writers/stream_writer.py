"""Stream a generation's events to the client as they come."""

from gateway.api.server.http_exchange import HttpExchange
from gateway.api.writers.api_adapter import ApiAdapter
from gateway.api.writers.guarded_stream import GuardedStream
from gateway.api.writers.parsed_encoder import StreamEncoder
from gateway.inference.generation import Generation
from gateway.telemetry.stream_pace import StreamPace
from protos.errors import PenstockError


async def stream_answer(
    exchange: HttpExchange,
    generation: Generation,
    encoder: StreamEncoder,
    adapter: ApiAdapter | None = None,
    guarded: GuardedStream | None = None,
    *,
    paced: bool = True,
) -> None:
    """Send the stream; with `guarded`, what guards let pass; `paced`: record the times between events.

    Raises errors that can still be a status.
    """
    # The first events are encoded before the status goes out, so that an engine's refusal can still be one.
    body = encoder.opening()
    body += encoder.encode(generation.first) if guarded is None else await guarded.take(generation.first)
    pace = StreamPace(exchange.record) if paced else None
    await exchange.start_stream()
    try:
        while generation.open_sequences:
            if body:
                await exchange.write(body)
            elif pace is not None:
                pace.event_held()
            events = await generation.stream.receive()
            if pace is not None:
                pace.event_received()
            body = encoder.encode(events) if guarded is None else await guarded.take(events)
        end = encoder.closing()
        generation.close()
        exchange.unwatch()
        if adapter is not None:
            try:
                await adapter.store_answer()
            except PenstockError as error:
                exchange.note_failure(error)
                end = encoder.broken(error)
        await exchange.end(body + end)
    except PenstockError as error:
        exchange.note_failure(error)
        await exchange.end(encoder.broken(error))
    finally:
        if pace is not None:
            pace.end()
