"""What an explained request sees beyond the policy's own scores: why replicas are not even candidates."""

from functools import partial

from gateway.models.served_model import ServedModel
from gateway.scheduling.admission import TurnRequest
from routing.contracts.explained_policy import ExplainedPolicy
from routing.dispatch.dispatch_context import Desk


def explained_desk(model: ServedModel, wanted: TurnRequest, explained: ExplainedPolicy) -> Desk:
    """The model's desk for one request, which is about to be decided by `explained`."""
    explained.begin(wanted.route, model.turnstile.waiting, partial(left_out, model, wanted))
    return model.desk.explained(explained)


def left_out(model: ServedModel, wanted: TurnRequest) -> dict[str, str]:
    """What speaks now against each replica of the model, by id; empty where nothing does.

    Of one that takes no requests only its state is told: why it is in that state is the operators' business.
    """
    states = {status.id: status.state.value for status in model.fleet.statuses()}
    unable = model.fleet.why_not(wanted.route.needs, wanted.route.adapter)
    return states | unable | model.turnstile.objections(wanted)
