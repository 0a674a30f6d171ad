"""From a decoded request to a generation under way: prepare, admit, dispatch."""

import asyncio
from time import monotonic

import msgspec

from gateway.inference.explained_candidates import explained_context
from gateway.inference.generate_request import GenerateRequest, unrecorded
from gateway.inference.generation import Generation
from gateway.inference.needs import name_guide
from gateway.inference.prepare import Prepared, prepare
from gateway.inference.request_context import RequestContext
from gateway.inference.token_bounds import bound_to_tell
from gateway.scheduling.admission import Admission, AdmissionRequest
from gateway.tenancy.limits.limiter import Lease, Usage
from observability.tracing.trace_context import context_to_send
from protos.errors import ClientGone, DeadlineExceeded, Overloaded, SlowClient
from protos.types import Payload, Submit
from routing.contracts.policy import RouteRequest, RoutingPolicy
from routing.dispatch.dispatch import dispatch

#: Of an answer that is not streamed, at most so many tokens less one are not known of when it is cut short.
UNSEEN_TOKENS = 32


async def generate(request: GenerateRequest, context: RequestContext, payload: Payload | None = None) -> Generation:
    """Start a generation; it has begun to answer when this returns, and its owner must `close` it.

    `payload` is the request for replicas that speak its API. Raises the errors of protos/errors.py.
    """
    model, record = request.model, request.record
    # The stages are those of the first model that came so far as to ask a replica.
    stages = unrecorded() if record.sent else record
    stages.reserved = stages.admitted = 0.0
    prepared = await prepare(request, context, stages)
    lease, record.reserved_tokens = prepared.lease, prepared.reserved_tokens
    admission: Admission | None = None
    try:
        wanted = admission_request(request, prepared.route, lease.output, context.wait_until, context.explained)
        dispatch_context = (
            model.dispatch_context if context.explained is None else explained_context(model, wanted, context.explained)
        )
        admission = model.admission_queue.try_enter(wanted) or await model.admission_queue.enter(wanted, context.handle)
        stages.admitted = monotonic()
        record.policy = model.policy_name
        submit = submit_of(prepared, payload)
        stages.sent = monotonic()
        dispatched = await dispatch(dispatch_context, admission.route, submit, context.handle, admission, record)
    except BaseException as error:
        end_unanswered(lease, admission, prepared.prompt.tokens, error, request)
        name_guide(error, request)
        raise
    record.first_token = monotonic()
    return Generation(request, prepared.prompt, dispatched, lease, admission)


def submit_of(prepared: Prepared, payload: Payload | None) -> Submit:
    """The message to a replica. An upstream is told of a bound that the client named none of."""
    request, (max_tokens, *_) = prepared.request, prepared.bounds
    model = request.model
    if payload is not None and request.max_tokens is None:
        payload = msgspec.structs.replace(payload, max_tokens=bound_to_tell(request, max_tokens))
    return Submit(
        request_id=request.id,
        prompt_ids=prepared.prompt.ids,
        max_tokens=max_tokens,
        sampling=request.sampling,
        delta_interval=delta_interval(request),
        cache_salt=model.salt(request.caller.cache_owner),
        adapter=model.adapter,
        guide=request.guide,
        payload=payload,
        trace=context_to_send(request.record),
    )


def admission_request(
    request: GenerateRequest,
    route: RouteRequest,
    expected_output: int,
    wait_until: float,
    policy: RoutingPolicy | None = None,
) -> AdmissionRequest:
    """What the queue must know of a request and its tenant; `policy` decides instead of the model's."""
    caller, tier = request.caller, request.caller.tier
    waiting = caller.tenant.waiting
    return AdmissionRequest(
        request_id=request.id,
        tenant=caller.queue_name,
        rank=caller.rank,
        weight=tier.weight,
        reserved=tier.reserved,
        route=route,
        expected_output=expected_output,
        n=request.sampling.n,
        wait_until=min(wait_until, request.arrived + waiting.max_seconds),
        max_waiting=waiting.max_requests,
        policy=policy,
    )


def end_unanswered(
    lease: Lease, admission: Admission | None, prompt_tokens: int, error: BaseException, request: GenerateRequest
) -> None:
    """End what was taken for a request that came to nothing.

    A client that left, or a deadline, does not undo a prefill that has been asked for; a replica's failure or refusal
    is not the tenant's to pay for.
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
    """How many tokens the engine gathers before it tells."""
    if request.stream or request.stops:
        return 1
    # Not all at once: what an answer has used must be known when its client leaves in the middle. Logprobs are large.
    return UNSEEN_TOKENS if request.sampling.logprobs is None else UNSEEN_TOKENS // 2
