"""Explain why replicas are no candidates for a request, beside the policy's own scores."""

from functools import partial

from gateway.models.served_model import ServedModel
from gateway.scheduling.admission import AdmissionRequest
from routing.contracts.explained_policy import ExplainedPolicy
from routing.dispatch.dispatch_context import DispatchContext


def explained_context(model: ServedModel, wanted: AdmissionRequest, explained: ExplainedPolicy) -> DispatchContext:
    """Make the dispatch context of one request that the policy `explained` is about to route."""
    explained.begin(wanted.route, model.admission_queue.waiting, partial(left_out, model, wanted))
    return model.dispatch_context.explained(explained)


def left_out(model: ServedModel, wanted: AdmissionRequest) -> dict[str, str]:
    """List each replica of the model with the reason that excludes it now, by id; empty where nothing does.

    For a replica that takes no requests only its state is given: the cause of that state is the operators' business.
    """
    states = {status.id: status.state.value for status in model.fleet.statuses()}
    unable = model.fleet.why_not(wanted.route.needs, wanted.route.adapter)
    return states | unable | model.admission_queue.objections(wanted)
