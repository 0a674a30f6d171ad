"""Make a request to one version of a model, on the path of any request but charged to nobody.

It is in the background: it waits behind all clients' requests, and only for a moment. What filters do with answers
holds for it as for the client's own request; its prompt has been filtered before, and is not counted again.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from gateway.api.openai.body_reading import read_body
from gateway.api.openai.chat import CHAT
from gateway.api.openai.completion_api import CompletionApi
from gateway.api.openai.completions import COMPLETIONS
from gateway.api.openai.embeddings import embed
from gateway.api.openai.pipeline import Pipeline
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.internal_exchange import InternalExchange
from gateway.api.server.run_handler import serve
from gateway.api.server.services import Services
from gateway.api.writers.write_answer import write_answer
from gateway.caching.lru import Lru
from gateway.inference.generation import Generation
from gateway.models.model_versions import VERSION_HEADER
from gateway.telemetry.answer_record import describe
from gateway.telemetry.record_publisher import RecordPublisher
from gateway.tenancy.limits.no_limits import NO_LIMITS
from gateway.tenancy.tenants.background import in_background
from gateway.tenancy.tenants.caller import Caller

#: The name of these requests in the journal.
ENDPOINT: Final = "shadow"
#: Most seconds that one waits for admission.
_WAIT_SECONDS: Final = 0.5
_MOST_CALLERS: Final = 1000
_APIS: Final = {api.path: api for api in (CHAT, COMPLETIONS)}


class CandidateAnswer(msgspec.Struct, frozen=True):
    """An answer's body, or an error's; `version` is that of the replica, `seconds` the whole time."""

    status: int
    body: bytes
    code: str
    version: str
    answer_hash: str
    seconds: float


class CandidateRequests:
    """Makes the requests of one worker."""

    def __init__(self, services: Callable[[], Services], publisher: RecordPublisher, lowest: int) -> None:
        """`services` are those of the configuration in use, `lowest` the rank of the lowest tier.

        `publisher` takes the records, which are no client's.
        """
        self._services = services
        self._publisher = publisher
        self.lowest = lowest
        self._callers: Lru[str, tuple[Caller, Caller]] = Lru(_MOST_CALLERS)

    async def ask(
        self, caller: Caller, version: str, path: str, body: bytes, *, seconds: float, shadow_of: str = ""
    ) -> CandidateAnswer:
        """Ask a version, in the name of a caller, for at most so many seconds. Raises nothing but a cancellation."""
        headers = [(VERSION_HEADER.encode(), version.encode()), (b"x-request-timeout", b"%.3fs" % seconds)]
        services = self._services()
        exchange = InternalExchange(self.background(caller), path, body, services.sampler, ENDPOINT, headers)
        record = exchange.record
        record.shadow_of = shadow_of
        began = time.monotonic()
        handler = partial(_answer, api=_APIS[path])
        await serve(replace(services, limiter=NO_LIMITS, copies=None), exchange, handler, named=False)
        took = time.monotonic() - began
        # Nobody pays for it.
        record.cost_nano_usd = 0
        self._publisher.ended(record)
        return CandidateAnswer(exchange.status, exchange.answer, record.code, record.version, record.answer_hash, took)

    async def embeddings(self, caller: Caller, model: str, texts: list[str]) -> bytes:
        """Have a model embed texts; returns the API's answer, or an error's."""
        body = msgspec.json.encode({"model": model, "input": texts, "encoding_format": "float"})
        services = self._services()
        exchange = InternalExchange(self.background(caller), "/v1/embeddings", body, services.sampler, ENDPOINT)
        await serve(replace(services, limiter=NO_LIMITS, copies=None), exchange, embed, named=False)
        return exchange.answer

    def background(self, caller: Caller) -> Caller:
        """Make of a caller one that waits behind all others and may name a version."""
        known = self._callers.get(caller.key.key_id)
        if known is not None and known[0] is caller:
            return known[1]
        # Which endpoints the key may use was checked with the client's request.
        key = msgspec.structs.replace(caller.key, endpoints=())
        tenant = msgspec.structs.replace(caller.tenant, chooses_version=True)
        named = Caller(key, tenant, caller.tier, caller.rank)
        made = in_background(named, self.lowest, most_seconds=_WAIT_SECONDS)
        self._callers.put(caller.key.key_id, (caller, made))
        return made


async def _answer(services: Services, exchange: HttpExchange, api: CompletionApi) -> None:
    """Answer by the model itself, never by one of its fallbacks. Raises what can still be a status."""
    async with services.intake.open(exchange, api.endpoint) as incoming:
        body = await incoming.body()
        reading = read_body(api, body)
        model = incoming.model(reading.fields.model)
        request = reading.request(incoming.caller, model, exchange.record)
        incoming.begin()
        pipeline = Pipeline(services, incoming, reading, body, request, None, adapted=False, screened=True)
        generation: Generation | None = None
        try:
            generation = await pipeline.start(model)
            await write_answer(pipeline, generation, None)
        finally:
            if generation is not None:
                generation.close()
                describe(generation, services.digests)
