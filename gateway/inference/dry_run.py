"""Dry run: make a request's routing decision without admission, replica or charge."""

import msgspec

from gateway.inference.explained_candidates import explained_context
from gateway.inference.generate import admission_request
from gateway.inference.generate_request import GenerateRequest, scratch_record
from gateway.inference.prepare import prepare
from gateway.inference.request_context import RequestContext
from routing.contracts.explained_policy import ExplainedPolicy
from routing.contracts.explanation import RouteExplanation


async def dry_run(request: GenerateRequest, context: RequestContext, explained: ExplainedPolicy) -> RouteExplanation:
    """Make the decision that the request would get if it were admitted now. Raises the errors of protos/errors.py.

    Limits are reserved as for any request, since the lease bounds the answer and thereby the decision; the reservation
    is released at once.
    """
    prepared = await prepare(msgspec.structs.replace(request, record=scratch_record()), context, scratch_record())
    prepared.lease.release()
    context.handle.check()
    model = request.model
    wanted = admission_request(prepared, explained)
    explained_context(model, wanted, explained)
    return explained.considered(wanted.route, model.admission_queue.consider(wanted))
