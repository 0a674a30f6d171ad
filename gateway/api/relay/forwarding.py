"""Forward requests other than generations to upstreams that have the endpoint: from a body to unchanged answers.

Limits, admission, routing and the record are those of every request: one reservation for the client's request, and an
admission for each request to an upstream.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from gateway.api.openai.prompt_texts import rewritten
from gateway.api.server.body_decoder import BodyDecoder
from gateway.api.server.filtered_prompt import filtered_prompt
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.intake import IncomingRequest
from gateway.api.server.served_headers import served_headers
from gateway.api.server.services import Services
from gateway.api.server.timing_headers import own_headers
from gateway.filtering.filters.finding_records import Recorder
from gateway.filtering.filters.prompt_filter import ask_guards
from gateway.filtering.prompt_text import PromptText
from gateway.inference.generate import generate
from gateway.inference.generate_request import GenerateRequest, scratch_record
from gateway.inference.generation import Generation
from gateway.inference.prepare import prepare
from gateway.inference.request_context import RequestContext
from gateway.inference.shared_reservation import Parts, SharedLease
from gateway.models.served_model import ServedModel
from gateway.telemetry.answer_record import note_version
from gateway.tenancy.limits.limiter import Usage
from protos.errors import Overloaded, ReplicaFailed, UnsupportedParameter
from protos.features import NAMES, Feature
from protos.types import FinishReason, Payload, Sampling
from routing.dispatch.dispatch import RequestHandle
from routing.dispatch.routed import note_route
from routing.estimates.text_tokens import text_tokens
from routing.transports.openai.usage_forms import counts_of

#: Bound on one answer of an upstream, in bytes.
MOST_ANSWER_BYTES: Final = 128 << 20
_ONE: Final = Sampling()


class Named(Protocol):
    """A body that names its model."""

    @property
    def model(self) -> str:
        """The model by the client's name of it."""
        ...


B = TypeVar("B", bound=Named)


@dataclass(frozen=True, slots=True)
class ForwardedRequest(Generic[B]):
    """A decoded and filtered request. `size` is its body's length in bytes."""

    services: Services
    incoming: IncomingRequest
    model: ServedModel
    body: B
    size: int


class _Asking(msgspec.Struct, frozen=True):
    """Tells a model's versions of a request that generates nothing. Each is a conversation of its own."""

    exchange: HttpExchange
    body: Any

    def header(self, name: bytes) -> bytes | None:
        return self.exchange.header(name)

    def split_key(self, by: str, header: str) -> bytes:
        if by == "header":
            return self.exchange.header(header.encode()) or b""
        if by == "tenant":
            return b""
        user = getattr(self.body, "user", None) if by == "user" else self.exchange.record.id
        return user.encode() if user else b""


async def read_request(
    services: Services,
    incoming: IncomingRequest,
    decoder: BodyDecoder[B],
    texts: Callable[[B, ServedModel], list[PromptText]],
) -> ForwardedRequest[B]:
    """Read a request, start its deadline, and pass its `texts` through the filters. Raises errors with a status."""
    sent = await incoming.body()
    body = decoder.decode(sent)
    model = incoming.model(body.model)
    incoming.begin()
    left = await _filtered(services, incoming, model, sent, partial(texts, body, model))
    if left is not sent:
        body = decoder.decode(left)
    return ForwardedRequest(services, incoming, model, body, len(left))


async def _filtered(
    services: Services,
    incoming: IncomingRequest,
    model: ServedModel,
    body: bytes,
    texts: Callable[[], list[PromptText]],
) -> bytes:
    tenant, record = incoming.caller.tenant, incoming.exchange.record
    policy = services.policies.of(tenant, model.name)
    if policy is None or not policy.reads_prompts:
        return body
    recorder = Recorder(record, tenant.name, policy.record_text)
    passed = await filtered_prompt(services.encoding, incoming.exchange, policy, texts(), recorder, len(body))
    if passed.open:
        began = time.monotonic()
        try:
            await ask_guards(policy, passed, recorder)
        finally:
            record.screened = ended = time.monotonic()
            record.filter_seconds += ended - began
    return rewritten(body, passed.replaced) if passed.replaced else body


async def forward(
    forwarded: ForwardedRequest[Any],
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
    """Send each of the bodies to an upstream that has the endpoint; `read` takes in the answer to each.

    `read` returns the prompt tokens that the answer reports; those of `free` requests do not count. `param` is the
    parameter that holds the prompt. Raises the errors of protos/errors.py, the first one of any answer.
    """
    services, incoming, model = forwarded.services, forwarded.incoming, forwarded.model
    exchange, caller = incoming.exchange, incoming.caller
    record = exchange.record
    refused = UnsupportedParameter(f"The model '{model.shown}' cannot be asked for {NAMES[endpoint]}.", param="model")
    whole = GenerateRequest(
        id=record.id,
        caller=caller,
        model=model,
        prompt="",
        size=0,
        sampling=_ONE,
        max_tokens=0,
        stops=(),
        stream=False,
        arrived=record.arrived,
        foreign=refused,
        endpoint=endpoint.value,
        record=record,
        parts=() if free else tuple(text_tokens(body) for body in bodies),
        prompt_param=param,
    )
    asking = _Asking(exchange, forwarded.body)
    context = RequestContext(
        services.limiter, services.encoding, exchange.handle, incoming.wait_until, incoming.deadline, asking=asking
    )
    prepared = await prepare(whole, context, scratch_record())
    prompt_tokens, shared = prepared.prompt.tokens, SharedLease(prepared.lease)

    async def one(index: int, handle: RequestHandle) -> None:
        request = msgspec.structs.replace(
            whole,
            id=record.id if index == 0 else f"{record.id}-{index}",
            size=len(bodies[index]),
            estimate=text_tokens(bodies[index]),
            max_tokens=1,
            parts=(),
            record=record if index == 0 else scratch_record(),
        )
        payload = Payload(path, bodies[index], False, False, model.shown, at_root=at_root)
        part = msgspec.structs.replace(context, limiter=shared, handle=handle)
        generation = await generate(request, part, payload)
        reported: int | None = None
        try:
            reported = await read(index, await _whole(generation))
        finally:
            used = 0 if free else (generation.prompt_tokens if reported is None else reported)
            _end(generation, used)
            if index == 0:
                exchange.answer_headers = served_headers(generation) + own_headers(generation)
                note_route(record, generation.stream)

    error: BaseException | None = None
    try:
        await Parts([partial(one, index) for index in range(len(bodies))], at_once).run(exchange.handle)
    except BaseException as raised:
        error = raised
        raise
    finally:
        shared.end(error)
        _note(forwarded, shared.used, error, prompt_tokens)
    return shared.used


async def _whole(generation: Generation) -> bytes:
    """Read all of an upstream's answer. Raises PenstockError."""
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
    """Make the error of an invalid answer; `what` is for the log."""
    error = ReplicaFailed("The model's upstream failed on this request.")
    error.detail = what
    return error


def _end(generation: Generation, prompt_tokens: int) -> None:
    """End a generation as `Generation.close` does, without learning the length of its answer."""
    generation.stream.close()
    generation.lease.settle(Usage(prompt_tokens, 0, 0))
    generation.admission.release(0)


def _note(forwarded: ForwardedRequest[Any], used: Usage, error: BaseException | None, prompt_tokens: int) -> None:
    """Fill in the record of the whole request: its parts recorded only themselves."""
    record, model = forwarded.incoming.exchange.record, forwarded.model
    record.reserved_tokens = prompt_tokens
    record.prompt_tokens = used.prompt
    record.cost_nano_usd = model.price.nano(used.prompt, 0, 0)
    record.rejected_tokens = prompt_tokens if isinstance(error, Overloaded) else 0
    note_version(record, model.fleet.version(record.replica) or record.version)
    record.last_token = time.monotonic()
    if error is None:
        record.finish = FinishReason.STOP.value


def prompt_count(*told: object) -> int | None:
    """Find the prompt's tokens in an answer that has only a prompt, by what it tells of usage; None: nothing."""
    for usage in told:
        counts = counts_of(usage)
        if counts is not None and counts.prompt is not None:
            return counts.prompt
    return None
