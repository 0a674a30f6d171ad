"""Where a request would go: its way through gateway/inference/generate.py without a turn, a replica or a charge."""

from gateway.inference.explained_candidates import explained_desk
from gateway.inference.generate import encoded, route_request, turn_request
from gateway.inference.generate_request import GenerateRequest
from gateway.inference.needs import checked_needs
from gateway.inference.token_bounds import output_bound
from gateway.scheduling.encoding_turns import EncodingTurns
from gateway.tenancy.limits.limiter import Ask, Limiter
from routing.contracts.explained_policy import ExplainedPolicy
from routing.contracts.explanation import RouteExplanation
from routing.dispatch.dispatch import Attempt


async def dry_run(
    request: GenerateRequest,
    limiter: Limiter,
    encoding: EncodingTurns,
    attempt: Attempt,
    deadline: float,
    explained: ExplainedPolicy,
) -> RouteExplanation:
    """What would be decided if it were the request's turn now. Raises the errors of protos/errors.py.

    Limits are asked as for any request, since what they say of its answer counts in the decision; what they reserve is
    given back at once. `deadline` is on the monotonic clock.
    """
    model, caller, n = request.model, request.caller, request.sampling.n
    needs = checked_needs(request)
    prompt = await encoded(request, encoding, attempt)
    max_tokens = output_bound(request, prompt.tokens)
    lease = await limiter.reserve(Ask(model.plans.of(caller), prompt.tokens, max_tokens * n, n))
    lease.release()
    attempt.check()
    route = route_request(request, prompt, max_tokens, deadline, needs)
    wanted = turn_request(request, route, lease.output, deadline, explained)
    explained_desk(model, wanted, explained)
    return explained.considered(wanted.route, model.turnstile.consider(wanted))
