"""The life of a generating request over HTTP, the same for every dialect."""

import time
from collections.abc import Coroutine
from typing import Any

import msgspec

from gateway.api.openai.body_reading import Reading, read_body
from gateway.api.openai.chat_renderer import ChatRenderer
from gateway.api.openai.completion_api import Dialect
from gateway.api.openai.explain_headers import (
    Explain,
    explain_wanted,
    explained_policy,
    explanation_body,
    log_explanation,
    show_route,
)
from gateway.api.openai.model_failover import first_to_answer
from gateway.api.openai.prompt_screening import filter_of_answers, start_filtered, told_at_once
from gateway.api.relay.relay_answer import relay_answer
from gateway.api.relay.relay_target import RelayTarget
from gateway.api.relay.translated_relay import TranslatedExchange
from gateway.api.server.client_timeouts import read_timeout, request_timeout
from gateway.api.server.http_exchange import Exchange
from gateway.api.server.served_headers import served_headers
from gateway.api.server.services import Services
from gateway.api.server.timing_headers import timing_headers
from gateway.api.writers.api_adapter import AnswerHead, Front
from gateway.api.writers.chunk_encoder import ChunkEncoder
from gateway.api.writers.guarded_stream import JudgedStream
from gateway.api.writers.parsed_encoder import ParsedEncoder, StreamEncoder, counts_of
from gateway.api.writers.stream_writer import stream_answer
from gateway.api.writers.whole_answer import collect
from gateway.api.writers.whole_choices import collect_choices
from gateway.filtering.filters.answer_filter import AnswerFilter
from gateway.inference.dry_run import dry_run
from gateway.inference.fallback_chain import chain
from gateway.inference.generate import generate
from gateway.inference.generate_request import GenerateRequest
from gateway.inference.generation import Generation
from gateway.inference.several_prompts import generate_several
from gateway.models.served_model import ServedModel
from gateway.telemetry.answer_record import describe, digest_shown
from gateway.telemetry.body_record import note_body
from protos.types import Payload
from routing.contracts.explained_policy import ExplainedPolicy


async def infer(services: Services, exchange: Exchange, dialect: Dialect, front: Front | None = None) -> None:
    """Authenticate, decode, generate, answer. Raises what can still be answered with a status.

    With a `front` it is a request to an API on top of the dialect's, and answered in that one's words.
    """
    services.intake.admit(exchange)
    caller = await services.intake.identify(exchange, dialect.endpoint if front is None else front.endpoint)
    wanted = None if exchange.explain is None else explain_wanted(exchange.explain, caller)
    timeout = request_timeout(exchange.request_timeout)
    body = await exchange.body(services.bounds.listen.max_body_bytes)
    record = exchange.record
    note_body(record, body, services.digests)
    if front is not None:
        body = await front.translate(caller, body)
    reading = read_body(dialect, body)
    # Not before it is known to be one of ours: a name may be any text.
    model = services.catalog.require(caller, reading.fields.model)
    record.model = record.asked_model = model.name
    record.screened = time.monotonic()
    include_usage = reading.include_usage
    request = reading.request(caller, model, record)
    exchange.deadline = deadline = wait_until = services.intake.deadline(timeout)
    if timeout is not None:
        exchange.look_after(timeout)
    reads_within = read_timeout(exchange.read_timeout)
    if reads_within is not None:
        wait_until = min(wait_until, request.arrived + reads_within)
    explained = None if wanted is None else explained_policy(model)
    try:
        if explained is not None:
            if wanted is Explain.DRY_RUN:
                await _answer_dry_run(services, exchange, request, deadline, explained)
                return
            show_route(exchange, explained)

        started: list[ServedModel] = []

        def start(chosen: ServedModel) -> Coroutine[Any, Any, Generation]:
            def launch(read: Reading, sent: bytes, answers: AnswerFilter | None) -> Coroutine[Any, Any, Generation]:
                own, noting, payload = request, explained, None
                if chosen is not model or read is not reading:
                    own = read.request(caller, chosen, record)
                if chosen is not model:
                    noting = None
                if chosen.relays:
                    wants_usage = include_usage or front is not None
                    # A front's bound is the gateway's to name, as upstreams call it differently.
                    bound = None if front is None else own.max_tokens
                    payload = Payload(dialect.path, sent, own.stream, wants_usage, chosen.shown, bound)
                if answers is not None:
                    own = msgspec.structs.replace(own, filter=answers)
                begin = generate if not own.prompts else generate_several
                return begin(
                    own, services.limiter, services.encoding, exchange.attempt, wait_until, deadline, noting, payload
                )

            # A model that answers in another one's place is held to the rules of both.
            names = (model.name,) if chosen is model else (model.name, chosen.name)
            policy = services.policies.of(caller.tenant, *names)
            if policy is None:
                return launch(reading, body, None)
            if chosen is model and told_at_once(policy, request, body):
                return launch(reading, body, filter_of_answers(policy, request))
            again, started[:] = bool(started), [chosen]
            return start_filtered(services, exchange, caller, chosen, policy, reading, body, launch, again=again)

        if model.fallbacks is None:
            generation = await start(model)
        else:
            models = chain(model, services.catalog.models, caller, len(body), request.max_tokens, request.sampling.n)
            generation = await first_to_answer(exchange, model, models, start)
        try:
            digest_shown(generation, services.digests)
            exchange.answer_headers = served_headers(generation)
            renderer = None if front is None else front.renderer(_head(exchange, generation))
            if generation.stream.relay is not None:
                target: RelayTarget = exchange
                if front is not None and renderer is not None:
                    target = TranslatedExchange(exchange, generation, renderer, front)
                digest = None if services.digests is None else services.digests.begin()
                usage = include_usage or front is not None
                await relay_answer(target, generation, generation.stream.relay, digest, include_usage=usage)
                if digest is not None:
                    record.answer_hash = digest.hexdigest()
                return
            if renderer is None and generation.answers is not None:
                head, count = _head(exchange, generation), len(generation.sequences)
                renderer = ChatRenderer(dialect, generation.request.model, head, count, usage=include_usage)
            answer_id, created = dialect.id_prefix + exchange.request_id[4:], int(time.time())
            if request.stream:
                encoder: StreamEncoder
                if renderer is None:
                    encoder = ChunkEncoder(dialect, generation, answer_id, created, usage=include_usage)
                else:
                    encoder = ParsedEncoder(generation, renderer)
                looks = generation.request.filter
                judged = JudgedStream(generation, encoder, looks) if looks is not None and looks.judges else None
                await stream_answer(exchange, generation, encoder, front, judged)
            else:
                if renderer is None:
                    answer = await collect(dialect, generation, answer_id, created)
                else:
                    choices = await collect_choices(generation)
                    answer = renderer.whole(choices, counts_of(generation))
                # Before the client can send its next request, which may need the room.
                generation.close()
                exchange.unwatch()
                if front is not None:
                    await front.keep()
                await exchange.respond(200, answer, headers=timing_headers(generation))
        finally:
            generation.close()
            generation.record_findings()
            describe(generation, services.digests)
    finally:
        exchange.unwatch()
        exchange.look_no_more()
        if wanted is Explain.ROUTE and explained is not None:
            log_explanation(explained.explanation())


async def _answer_dry_run(
    services: Services, exchange: Exchange, request: GenerateRequest, deadline: float, explained: ExplainedPolicy
) -> None:
    explanation = await dry_run(request, services.limiter, services.encoding, exchange.attempt, deadline, explained)
    exchange.unwatch()
    log_explanation(explanation, dry=True)
    await exchange.respond(200, explanation_body(explanation))


def _head(exchange: Exchange, generation: Generation) -> AnswerHead:
    request = generation.request
    return AnswerHead(
        suffix=exchange.request_id[4:],
        created=int(time.time()),
        model=request.model.shown,
        streamed=request.stream,
        fingerprint=generation.fingerprint,
        prompt_tokens=generation.prompt_tokens,
    )
