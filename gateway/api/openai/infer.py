"""A generating request over HTTP, the same for every API: intake, reading, then `answer`."""

from gateway.api.openai.body_reading import read_body
from gateway.api.openai.completion_api import Dialect
from gateway.api.openai.explain_headers import Explain, answer_dry_run, explain_wanted, explained_policy, showing_route
from gateway.api.openai.pipeline import Pipeline
from gateway.api.server.http_exchange import Exchange
from gateway.api.server.services import Services
from gateway.api.writers.api_adapter import Front
from gateway.api.writers.write_answer import write_answer
from gateway.telemetry.answer_record import describe


async def infer(services: Services, exchange: Exchange, dialect: Dialect, front: Front | None = None) -> None:
    """Answer a request to a completion API, or with a `front` to an API on top of it, in that one's words.

    Raises what can still be answered with a status.
    """
    async with services.intake.open(exchange, dialect.endpoint if front is None else front.endpoint) as incoming:
        explain = None if exchange.explain is None else explain_wanted(exchange.explain, incoming.caller)
        body = await incoming.body()
        if front is not None:
            body = await front.translate(incoming.caller, body)
        reading = read_body(dialect, body)
        model = incoming.model(reading.fields.model)
        request = reading.request(incoming.caller, model, exchange.record)
        incoming.begin()
        explained = None if explain is None else explained_policy(model)
        pipeline = Pipeline(services, incoming, reading, body, request, explained, adapted=front is not None)
        if explained is None:
            await answer(pipeline, front)
        elif explain is Explain.DRY_RUN:
            await answer_dry_run(exchange, request, pipeline.context, explained)
        else:
            with showing_route(exchange, explained):
                await answer(pipeline, front)


async def answer(pipeline: Pipeline, front: Front | None) -> None:
    """Run the pipeline, write what is generated, and end the generation. Raises as `infer` does."""
    generation = await pipeline.run()
    try:
        await write_answer(pipeline, generation, front)
    finally:
        generation.close()
        generation.record_findings()
        describe(generation, pipeline.services.digests)
