"""Where a request would go: its way through gateway/inference/generate.py without admission, replica or charge."""

import msgspec

from gateway.inference.explained_candidates import explained_context
from gateway.inference.generate import admission_request
from gateway.inference.generate_request import GenerateRequest, unrecorded
from gateway.inference.prepare import prepare
from gateway.inference.request_context import RequestContext
from routing.contracts.explained_policy import ExplainedPolicy
from routing.contracts.explanation import RouteExplanation


async def dry_run(request: GenerateRequest, context: RequestContext, explained: ExplainedPolicy) -> RouteExplanation:
    """What would be decided if the request were admitted now. Raises the errors of protos/errors.py.

    Limits are asked as for any request, since what they say of its answer counts in the decision; what they reserve is
    given back at once.
    """
    prepared = await prepare(msgspec.structs.replace(request, record=unrecorded()), context, unrecorded())
    prepared.lease.release()
    context.handle.check()
    model = request.model
    wanted = admission_request(prepared.request, prepared.route, prepared.lease.output, context.deadline, explained)
    explained_context(model, wanted, explained)
    return explained.considered(wanted.route, model.admission_queue.consider(wanted))
