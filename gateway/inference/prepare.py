"""Prepare a request: token ids, output bounds, a reservation and a route request."""

from collections.abc import Sequence
from time import monotonic

import msgspec

from gateway.inference.generate_request import GenerateRequest
from gateway.inference.needs import checked_needs
from gateway.inference.prompt_encoding import EncodedPrompt, encode_long, encode_prompt
from gateway.inference.request_context import RequestContext
from gateway.inference.shared_reservation import check_input_tokens
from gateway.inference.token_bounds import check_prompt_logprobs, output_bound
from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.tenancy.limits.limiter import Ask, Lease
from gateway.tenancy.tenants.caller import UNBOUNDED, Subscription
from observability.record import RequestRecord
from protos.errors import PenstockError
from routing.contracts.policy import RouteRequest
from routing.dispatch.dispatch import RequestHandle

#: Longer bodies are tokenized off the event loop: at 20 MB/s this size blocks it for under a millisecond.
INLINE_BYTES = 16 * 1024


class Prepared(msgspec.Struct, frozen=True):
    """A request with its reservation. `request` counts the sequences of all its prompts.

    With several prompts, `prompt` holds the total token count, `prompts` holds each one, and `bounds` the output tokens
    of each answer, by prompt. The holder must end the `lease`.
    """

    request: GenerateRequest
    prompt: EncodedPrompt
    prompts: Sequence[EncodedPrompt]
    bounds: Sequence[int]
    lease: Lease
    subscription: Subscription
    route: RouteRequest

    @property
    def reserved_tokens(self) -> int:
        """Tokens that the limits hold for the request."""
        return self.prompt.tokens + self.lease.output


async def prepare(request: GenerateRequest, context: RequestContext, stages: RequestRecord) -> Prepared:
    """Check features, encode, bound, reserve and build the route request, in this order; `stages` gets the moments.

    A request with `prompts`, or forwarded in `parts`, has one reservation for all of them. Raises UnsupportedParameter,
    InvalidRequest, TokenLimitExceeded, ContextLengthExceeded, the limiter's errors, and the error that the context's
    handle is failed with.
    """
    model, sampling, wanted = request.model, request.sampling, request.max_tokens
    subscription, each = model.subscription(request.caller), sampling.n
    needs = checked_needs(request, subscription.adapter)
    if model.versions is not None:
        needs = model.versions.assign(request.caller, needs, subscription.adapter, context.asking, request.record)
    if request.prompts or request.parts:
        prompts: Sequence[EncodedPrompt] = await _encoded_parts(request, context)
        prompt = prompts[0] if len(prompts) == 1 else EncodedPrompt([], sum(one.tokens for one in prompts))
        check_input_tokens(request.caller, request.model.name, prompt.tokens, request.prompt_param)
        if request.prompts:
            check_prompt_logprobs(request, prompt.tokens)
            sampling = msgspec.structs.replace(request.sampling, n=each * len(prompts))
            request = msgspec.structs.replace(request, sampling=sampling)
        bounds: Sequence[int] = [output_bound(request, one.tokens) for one in prompts]
        request = _with_bound_told(request, min(bounds))
        longest, most = max(bounds), sum(bounds) * each
    else:
        if request.size > INLINE_BYTES or request.foreign is not None or model.opaque:
            prompt = await encoded(request, context.encoding, context.handle)
        else:
            prompt = _encoded_now(request)
        if (
            wanted is None
            or prompt.tokens + wanted > model.context
            or subscription.bounds is not UNBOUNDED
            or sampling.logprobs is not None
        ):
            wanted = output_bound(request, prompt.tokens)
            request = _with_bound_told(request, wanted)
        longest, prompts, bounds, most = wanted, (prompt,), [wanted], wanted * each
    stages.encoded = monotonic()
    try:
        lease = await context.limiter.reserve(Ask(subscription.plan, prompt.tokens, most, sampling.n))
    except PenstockError:
        request.record.rejected_tokens = prompt.tokens
        raise
    stages.reserved = monotonic()
    try:
        route = route_request(request, subscription, prompt, longest, context.deadline, needs)
    except BaseException:
        lease.release()
        raise
    return Prepared(request, prompt, prompts, bounds, lease, subscription, route)


def _with_bound_told(request: GenerateRequest, bound: int) -> GenerateRequest:
    """Let the answer's headers say that a bound is lower than the client's."""
    if request.max_tokens is None or bound >= request.max_tokens:
        return request
    told = f"{request.max_tokens_param}={bound}"
    return msgspec.structs.replace(request, adjusted=(*request.adjusted, told))


async def _encoded_parts(request: GenerateRequest, context: RequestContext) -> list[EncodedPrompt]:
    if request.parts:
        return [EncodedPrompt([], tokens) for tokens in request.parts]
    alone = [msgspec.structs.replace(request, prompt=prompt) for prompt in request.prompts]
    return [await encoded(one, context.encoding, context.handle) for one in alone]


async def encoded(request: GenerateRequest, encoding: EncodingQueue, handle: RequestHandle) -> EncodedPrompt:
    """Encode the prompt, unless it is opaque. Raises InvalidRequest, or the error that `handle` is failed with."""
    if request.opaque:
        return EncodedPrompt([], request.estimate)
    if request.size <= INLINE_BYTES:
        return _encoded_now(request)
    model, caller = request.model, request.caller
    salt = model.salt(caller.cache_owner)
    ids = await encoding.run(handle, caller.tenant.name, encode_long, model, request.prompt, encoding.units, salt)
    return EncodedPrompt(ids, len(ids))


def _encoded_now(request: GenerateRequest) -> EncodedPrompt:
    """Encode the prompt on the event loop. Raises InvalidRequest."""
    ids = encode_prompt(request.model, request.prompt)
    return EncodedPrompt(ids, len(ids))


def route_request(
    request: GenerateRequest,
    subscription: Subscription,
    prompt: EncodedPrompt,
    max_tokens: int,
    deadline: float,
    needs: int,
) -> RouteRequest:
    """Describe a request to the routing policy. The prefix lookup covers the tenant's own cache alone."""
    model, tokens = request.model, prompt.tokens
    dispatch_context = model.dispatch_context
    prefix = dispatch_context.look_up(prompt.ids, subscription.salt)
    return RouteRequest(
        request.id,
        tokens,
        max_tokens,
        request.sampling.n,
        model.lengths.expected(subscription.origin, tokens, max_tokens),
        prefix.cached,
        prefix.chain,
        request.arrived,
        dispatch_context.clock(),
        deadline,
        subscription.rank,
        True,  # may wait
        needs,
        subscription.adapter,
    )
