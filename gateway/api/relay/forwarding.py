"""Requests for what only an upstream of the API does, other than to generate: from a body to its answers, unchanged.

Limits, turns, routing and the record are those of every request: it has one reservation, and each request that is made
of it has a turn of its own.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from gateway.api.openai.prompt_texts import rewritten
from gateway.api.server.body_decoder import BodyDecoder
from gateway.api.server.client_timeouts import read_timeout, request_timeout
from gateway.api.server.http_exchange import Exchange
from gateway.api.server.served_headers import served_headers
from gateway.api.server.services import Services
from gateway.api.server.timing_headers import own_headers
from gateway.filtering.filters.finding_records import Recorder
from gateway.filtering.filters.prompt_filter import ask_judges, pass_prompt
from gateway.filtering.prompt_text import PromptText
from gateway.inference.generate import INLINE_BYTES, Generation, generate
from gateway.inference.generate_request import GenerateRequest, unrecorded
from gateway.inference.needs import checked_needs
from gateway.inference.prompt_encoding import estimated_prompt
from gateway.inference.shared_reservation import Several, SharedLease, check_input_tokens
from gateway.models.served_model import ServedModel
from gateway.telemetry.body_record import note_body
from gateway.tenancy.limits.limiter import Ask, Usage
from gateway.tenancy.tenants.caller import Caller
from protos.errors import Overloaded, ReplicaFailed, UnsupportedParameter
from protos.features import NAMES, Feature
from protos.types import FinishReason, Payload, Sampling
from routing.dispatch.dispatch import Attempt
from routing.dispatch.routed import note_route

#: Of one answer of an upstream.
MOST_ANSWER_BYTES: Final = 128 << 20
_ONE: Final = Sampling()


class Named(Protocol):
    """A body that names its model."""

    @property
    def model(self) -> str:
        """As the client calls it."""
        ...


B = TypeVar("B", bound=Named)


@dataclass(frozen=True, slots=True)
class Asked(Generic[B]):
    """A request whose client is known. `size` is its body's, in bytes."""

    services: Services
    exchange: Exchange
    caller: Caller
    model: ServedModel
    body: B
    size: int
    wait_until: float
    deadline: float


async def take_request(
    services: Services,
    exchange: Exchange,
    endpoint: str,
    decoder: BodyDecoder[B],
    texts: Callable[[B, ServedModel], list[PromptText]],
) -> Asked[B]:
    """Who asks, for what, and as the filters leave it. `done_with` must be called in the end.

    Raises what is a status for the client.
    """
    services.intake.admit(exchange)
    caller = await services.intake.identify(exchange, endpoint)
    timeout, record = request_timeout(exchange.request_timeout), exchange.record
    sent = await exchange.body(services.bounds.listen.max_body_bytes)
    note_body(record, sent, services.digests)
    body = decoder.decode(sent)
    model = services.catalog.require(caller, body.model)
    record.model = record.asked_model = model.name
    record.screened = time.monotonic()
    exchange.deadline = deadline = wait_until = services.intake.deadline(timeout)
    if timeout is not None:
        exchange.look_after(timeout)
    reads_within = read_timeout(exchange.read_timeout)
    if reads_within is not None:
        wait_until = min(wait_until, record.arrived + reads_within)
    left = await _filtered(services, exchange, caller, model, sent, partial(texts, body, model))
    if left is not sent:
        body = decoder.decode(left)
    return Asked(services, exchange, caller, model, body, len(left), wait_until, deadline)


def done_with(exchange: Exchange) -> None:
    """The request is over, whatever way."""
    exchange.unwatch()
    exchange.look_no_more()


async def _filtered(
    services: Services,
    exchange: Exchange,
    caller: Caller,
    model: ServedModel,
    body: bytes,
    texts: Callable[[], list[PromptText]],
) -> bytes:
    policy, record = services.policies.of(caller.tenant, model.name), exchange.record
    if policy is None or not policy.looks_at_prompts:
        return body
    recorder = Recorder(record, caller.tenant.name, policy.record_text)
    apart = None if len(body) <= INLINE_BYTES else partial(services.encoding.run, exchange.attempt, caller.tenant.name)
    began = time.monotonic()
    try:
        passed = await pass_prompt(policy, texts(), recorder, apart)
        if passed.open:
            await ask_judges(policy, passed, recorder)
    finally:
        record.filter_seconds += time.monotonic() - began
    record.screened = time.monotonic()
    return rewritten(body, passed.replaced) if passed.replaced else body


async def ask(
    asked: Asked[Any],
    endpoint: Feature,
    path: str,
    bodies: Sequence[bytes],
    read: Callable[[int, bytes], Awaitable[int | None]],
    *,
    param: str,
    at_once: int = 1,
    at_root: bool = False,
    free: bool = False,
) -> Usage:
    """Send each of these bodies to an upstream that has that endpoint; `read` takes in what it answers to which.

    What `read` gives are the prompt tokens that the answer says; of `free` requests none count. `param` is the
    parameter that a prompt comes in. Raises the errors of protos/errors.py, the first one of any answer.
    """
    services, exchange, caller, model = asked.services, asked.exchange, asked.caller, asked.model
    record = exchange.record
    refused = UnsupportedParameter(f"The model '{model.shown}' cannot be asked for {NAMES[endpoint]}.", param="model")
    whole = GenerateRequest(
        id=record.id,
        caller=caller,
        model=model,
        prompt="",
        size=0,
        sampling=_ONE,
        max_tokens=1,
        stops=(),
        stream=False,
        arrived=record.arrived,
        foreign=refused,
        endpoint=endpoint.value,
        record=record,
    )
    checked_needs(whole)
    sizes = [estimated_prompt(len(body)).tokens for body in bodies]
    prompt_tokens = 0 if free else sum(sizes)
    check_input_tokens(caller, model.name, prompt_tokens, param)
    lease = await services.limiter.reserve(Ask(model.plans.of(caller), prompt_tokens, 0, 1))
    shared = SharedLease(lease)

    async def one(index: int, attempt: Attempt) -> None:
        request = msgspec.structs.replace(
            whole,
            id=record.id if index == 0 else f"{record.id}-{index}",
            size=len(bodies[index]),
            record=record if index == 0 else unrecorded(),
        )
        payload = Payload(path, bodies[index], False, False, model.shown, at_root=at_root)
        generation = await generate(
            request, shared, services.encoding, attempt, asked.wait_until, asked.deadline, payload=payload
        )
        told: int | None = None
        try:
            told = await read(index, await _whole(generation))
        finally:
            used = 0 if free else (generation.prompt_tokens if told is None else told)
            _end(generation, used)
            if index == 0:
                exchange.answer_headers = served_headers(generation) + own_headers(generation)
                note_route(record, generation.stream)

    error: BaseException | None = None
    try:
        await Several([partial(one, index) for index in range(len(bodies))], at_once).over(exchange.attempt)
    except BaseException as raised:
        error = raised
        raise
    finally:
        shared.end(error)
        _note(asked, shared.used, error, prompt_tokens)
    return shared.used


async def _whole(generation: Generation) -> bytes:
    """All of an upstream's answer. Raises PenstockError."""
    relay = generation.stream.relay
    assert relay is not None, "only upstreams of the API are asked"
    parts, size = [], 0
    while part := await relay.read():
        parts.append(part)
        size += len(part)
        if size > MOST_ANSWER_BYTES:
            raise bad_answer(f"it answers with more than {MOST_ANSWER_BYTES} bytes")
    generation.stream.check()
    return b"".join(parts)


def bad_answer(what: str) -> ReplicaFailed:
    """An upstream's answer is none; `what` is for the log."""
    error = ReplicaFailed("The model's upstream failed on this request.")
    error.detail = what
    return error


def _end(generation: Generation, prompt_tokens: int) -> None:
    """As `Generation.close`, but that nothing is learned about the lengths of answers."""
    generation.stream.close()
    generation.lease.settle(Usage(prompt_tokens, 0, 0))
    generation.turn.release(0)


def _note(asked: Asked[Any], used: Usage, error: BaseException | None, prompt_tokens: int) -> None:
    """What the record tells of the request as a whole: its parts wrote of themselves alone."""
    record, model = asked.exchange.record, asked.model
    record.reserved_tokens = prompt_tokens
    record.prompt_tokens = used.prompt
    record.cost_nano_usd = model.price.nano(used.prompt, 0, 0)
    record.rejected_tokens = prompt_tokens if isinstance(error, Overloaded) else 0
    record.version = model.fleet.version(record.replica) or ""
    record.last_token = time.monotonic()
    if error is None:
        record.finish = FinishReason.STOP.value


class PromptCount(msgspec.Struct, frozen=True):
    """An answer's `usage` where there is only a prompt."""

    prompt_tokens: int | None = None
    total_tokens: int | None = None

    @property
    def tokens(self) -> int | None:
        """None for what cannot be a count: somebody pays by it."""
        told = self.total_tokens if self.prompt_tokens is None else self.prompt_tokens
        return told if told is not None and 0 <= told <= 0x7FFF_FFFF else None
