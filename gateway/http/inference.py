"""The life of a generating request over HTTP, the same for every dialect."""

import asyncio
import time

from gateway.gateway import Gateway
from gateway.generate import Generation, generate
from gateway.http.answers import collect
from gateway.http.chunks import ChunkEncoder
from gateway.http.dialect import Dialect
from gateway.http.exchange import Exchange
from gateway.http.openai_errors import error_event
from protos.errors import DeadlineExceeded, PenstockError


async def infer(gateway: Gateway, exchange: Exchange, dialect: Dialect) -> None:
    """Authenticate, decode, generate, answer. Raises what can still be answered with a status."""
    key = await gateway.authenticator.authenticate(exchange.authorization)
    body = await exchange.body(gateway.config.listen.max_body_bytes)
    fields = dialect.decode(body)
    model = gateway.model(key, fields.model)
    include_usage = fields.include_usage
    request = dialect.request(fields, model, exchange.request_id, len(body))
    attempt = exchange.attempt
    exchange.watch()
    limit = gateway.config.listen.request_timeout_seconds
    deadline = asyncio.get_running_loop().call_later(limit, attempt.fail, _expired(limit))
    try:
        generation = await generate(request, attempt)
        try:
            answer_id, created = dialect.id_prefix + exchange.request_id[4:], int(time.time())
            if request.stream:
                encoder = ChunkEncoder(dialect, generation, answer_id, created, usage=include_usage)
                await _stream(exchange, generation, encoder)
            else:
                answer = await collect(dialect, generation, answer_id, created)
                exchange.unwatch()
                await exchange.respond(200, answer)
        finally:
            generation.close()
    finally:
        deadline.cancel()
        exchange.unwatch()


async def _stream(exchange: Exchange, generation: Generation, encoder: ChunkEncoder) -> None:
    # Encoding the first events before the status goes out lets an engine's refusal still be one.
    body = encoder.opening() + encoder.encode(generation.first)
    await exchange.start_stream()
    try:
        while generation.open_sequences:
            if body:
                await exchange.write(body)
            body = encoder.encode(await generation.stream.receive())
        exchange.unwatch()
        await exchange.end(body + encoder.closing())
    except PenstockError as error:
        await exchange.end(error_event(error))


def _expired(seconds: float) -> DeadlineExceeded:
    return DeadlineExceeded(f"The request took longer than the limit of {seconds:g} seconds.")
