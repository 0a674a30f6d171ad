"""Generate: prepare a decoded request, wait for admission, dispatch it to a replica."""

import asyncio
from time import monotonic

import msgspec

from gateway.inference.explained_candidates import explained_context
from gateway.inference.generate_request import GenerateRequest, scratch_record
from gateway.inference.generation import Generation
from gateway.inference.needs import name_guide
from gateway.inference.prepare import Prepared, prepare
from gateway.inference.request_context import RequestContext
from gateway.inference.token_bounds import upstream_bound
from gateway.scheduling.admission import Admission, AdmissionRequest
from gateway.tenancy.limits.limiter import Lease, Usage
from observability.tracing.trace_context import context_to_send
from protos.errors import ClientGone, DeadlineExceeded, Overloaded, SlowClient
from protos.types import Payload, Submit
from routing.contracts.policy import RoutingPolicy
from routing.dispatch.dispatch import dispatch

#: When an unstreamed answer is cut short, or loses its replica, fewer than this many of its tokens are uncounted, or
#: what its engine makes within this time where that is more.
UNSEEN_TOKENS = 32
UNSEEN_MS = 250


async def generate(request: GenerateRequest, context: RequestContext, payload: Payload | None = None) -> Generation:
    """Start a generation; it has begun to answer when this returns, and its owner must `close` it.

    `payload` is the request's body for replicas that speak its API. Raises the errors of protos/errors.py.
    """
    model, record = request.model, request.record
    # The record keeps the stages of the first model that got as far as a submit.
    stages = scratch_record() if record.sent else record
    stages.reserved = stages.admitted = 0.0
    prepared = await prepare(request, context, stages)
    prompt, lease = prepared.prompt, prepared.lease
    record.reserved_tokens = prompt.tokens + lease.output
    admission: Admission | None = None
    try:
        wanted = admission_request(prepared, context.explained)
        dispatch_context = (
            model.dispatch_context if context.explained is None else explained_context(model, wanted, context.explained)
        )
        admission = model.admission_queue.try_enter(wanted)
        if admission is None:
            record.stream = request.stream  # a stream that waits at zero gets comments
            admission = await model.admission_queue.enter(wanted, context.handle, context.wait_until)
        stages.admitted = monotonic()
        record.policy = model.policy_name
        submit = submit_of(prepared, payload)
        stages.sent = monotonic()
        dispatched = await dispatch(dispatch_context, admission.route, submit, context.handle, admission, record)
    except BaseException as error:
        end_unanswered(lease, admission, prompt.tokens, error, request)
        name_guide(error, request)
        raise
    record.first_token = monotonic()
    return Generation(prepared.request, prompt, dispatched, lease, admission, prepared.subscription.origin)


def submit_of(prepared: Prepared, payload: Payload | None) -> Submit:
    """Build the message to a replica; an upstream gets an output bound even where the client named none."""
    request, max_tokens = prepared.request, prepared.bounds[0]
    model = request.model
    if payload is not None and request.max_tokens is None:
        payload = msgspec.structs.replace(payload, max_tokens=upstream_bound(request, max_tokens))
    interval = delta_interval(request)
    return Submit(
        request_id=request.id,
        prompt_ids=prepared.prompt.ids,
        max_tokens=max_tokens,
        sampling=request.sampling,
        delta_interval=interval,
        cache_salt=prepared.subscription.salt,
        adapter=model.adapter,
        guide=request.guide,
        payload=payload,
        trace=context_to_send(request.record) if request.record.sampled else "",
        hold_ms=UNSEEN_MS if interval > 1 else 0,
    )


def admission_request(prepared: Prepared, policy: RoutingPolicy | None = None) -> AdmissionRequest:
    """Describe a request and its tenant to the admission queue; `policy`, if given, decides in place of the model's."""
    subscription, route = prepared.subscription, prepared.route
    return AdmissionRequest(
        route.request_id,
        subscription.queue_name,
        subscription.rank,
        subscription.weight,
        subscription.reserved,
        route,
        prepared.lease.output,
        route.n,
        route.arrived + subscription.max_wait_seconds,
        subscription.max_waiting,
        policy,
    )


def end_unanswered(
    lease: Lease, admission: Admission | None, prompt_tokens: int, error: BaseException, request: GenerateRequest
) -> None:
    """Release or settle lease and admission of a request that failed before its first token.

    A client that left, or a deadline, does not undo a prefill that was submitted: it is charged. A replica's failure or
    refusal is not charged to the tenant.
    """
    record = request.record
    left = isinstance(error, ClientGone | DeadlineExceeded | SlowClient | asyncio.CancelledError)
    if left and admission is not None and admission.sent:
        lease.settle(Usage(prompt_tokens, 0, 0))
        record.prompt_tokens, record.cost_nano_usd = prompt_tokens, request.model.price.nano(prompt_tokens, 0, 0)
    else:
        lease.release(rejected=isinstance(error, Overloaded))
        record.rejected_tokens = prompt_tokens if isinstance(error, Overloaded) else 0
    if admission is not None:
        admission.release(0)


def delta_interval(request: GenerateRequest) -> int:
    """Give the number of tokens that the engine gathers into one event."""
    if request.stream or request.stops:
        return 1
    # Not all at once: the tokens used must be known when the client leaves midway, and with them an answer goes on
    # elsewhere. Logprobs are large, so fewer.
    return UNSEEN_TOKENS if request.sampling.logprobs is None else UNSEEN_TOKENS // 2
