"""What an explained request sees beyond the policy's own scores: why replicas are not even candidates."""

from functools import partial

from gateway.models.served_model import ServedModel
from gateway.scheduling.admission import AdmissionRequest
from routing.contracts.explained_policy import ExplainedPolicy
from routing.dispatch.dispatch_context import DispatchContext


def explained_context(model: ServedModel, wanted: AdmissionRequest, explained: ExplainedPolicy) -> DispatchContext:
    """The model's dispatch context for one request, which is about to be decided by `explained`."""
    explained.begin(wanted.route, model.admission_queue.waiting, partial(left_out, model, wanted))
    return model.dispatch_context.explained(explained)


def left_out(model: ServedModel, wanted: AdmissionRequest) -> dict[str, str]:
    """What speaks now against each replica of the model, by id; empty where nothing does.

    Of one that takes no requests only its state is told: why it is in that state is the operators' business.
    """
    states = {status.id: status.state.value for status in model.fleet.statuses()}
    unable = model.fleet.why_not(wanted.route.needs, wanted.route.adapter)
    return states | unable | model.admission_queue.objections(wanted)
