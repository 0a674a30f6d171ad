"""Run a generating request over HTTP, the same for every API: intake, reading, pipeline, answer."""

from gateway.api.openai.body_reading import read_body
from gateway.api.openai.completion_api import CompletionApi
from gateway.api.openai.explain_headers import (
    Explain,
    answer_dry_run,
    explained_policy,
    log_explanation,
    parse_explain,
    show_route,
)
from gateway.api.openai.pipeline import Pipeline
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.api.writers.api_adapter import ApiAdapter
from gateway.api.writers.write_answer import write_answer
from gateway.inference.generation import Generation


async def infer(
    services: Services, exchange: HttpExchange, api: CompletionApi, adapter: ApiAdapter | None = None
) -> None:
    """Answer a request to a completion API, or with an `adapter` to an API on top of it, in that API's format.

    Raises errors that can still be a status.
    """
    async with services.intake.open(exchange, api.endpoint if adapter is None else adapter.endpoint) as incoming:
        explain = None if exchange.explain is None else parse_explain(exchange.explain, incoming.caller)
        body = await incoming.body()
        if adapter is not None:
            body = await adapter.translate(incoming.caller, body)
        reading = read_body(api, body)
        model = incoming.model(reading.fields.model)
        request = reading.request(incoming.caller, model, exchange.record)
        incoming.begin()
        explained = None if explain is None else explained_policy(model)
        pipeline = Pipeline(services, incoming, reading, reading.body, request, explained, adapted=adapter is not None)
        if explained is not None:
            if explain is Explain.DRY_RUN:
                await answer_dry_run(exchange, request, pipeline.context, explained)
                return
            show_route(exchange, explained)
        generation: Generation | None = None
        # No functions of their own: every coroutine between the server and the stream is resumed with every token.
        try:
            generation = await pipeline.run()
            if services.copies is not None:
                endpoint = api.endpoint if adapter is None else adapter.endpoint
                services.copies.begin(exchange, pipeline.request, api.path, body, endpoint)
            await write_answer(pipeline, generation, adapter)
        finally:
            if generation is not None:
                generation.close()
                if services.describes or exchange.internal:
                    services.describe(generation)
            if explained is not None:
                log_explanation(explained.explanation())
