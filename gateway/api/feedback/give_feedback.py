"""`POST /v1/feedback`: what a client tells of an answer, while versions of its model are compared."""

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.api.server.api_route import ApiRoute
from gateway.api.server.body_decoder import BodyDecoder
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.tenancy.limits.limiter import Ask, Usage
from protos.errors import AnswerNotFound, InvalidRequest

if TYPE_CHECKING:
    from gateway.rollouts.measures.answer_index import TellKind

#: The endpoint's name in a key's scope.
ENDPOINT: Final = "feedback"


class FeedbackBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The request body: an answer's id, or its `x-request-id`, and at least one thing about it."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    rating: Literal["up", "down"] | None = None
    regenerated: bool = False
    accepted: bool = False


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: what was taken in, and the version that had answered."""

    object: Literal["feedback"] = "feedback"
    id: str
    model: str
    version: str


_decoder = BodyDecoder(FeedbackBody, {"rating": (None,), "regenerated": (None,), "accepted": (None,)})


async def give_feedback(services: Services, exchange: HttpExchange) -> None:
    """Answer a request with feedback on an answer, and count it for the answer's version. Raises PenstockError."""
    async with services.intake.open(exchange, ENDPOINT) as incoming:
        body = _decoder.decode(await incoming.body())
        told = _told(body)
        incoming.begin()
        tenant, feedback = incoming.caller.tenant.name, services.feedback
        place = None if feedback is None else await feedback.find(tenant, body.id)
        model = None if place is None else services.catalog.models.get(place.model)
        if feedback is None or place is None or model is None or not incoming.caller.allows_model(place.model):
            raise AnswerNotFound(
                "There is no such answer of this tenant whose model has versions that are compared.", param="id"
            )
        lease = await services.limiter.reserve(Ask(model.plans.of(incoming.caller), 0, 0, 1))
        lease.settle(Usage(0, 0, 0))
        await feedback.tell(tenant, body.id, place, told, body.rating or "")
    answer = Feedback(id=body.id, model=place.model, version=place.version)
    await exchange.respond(200, msgspec.json.encode(answer))


def _told(body: FeedbackBody) -> "list[TellKind]":
    told: list[TellKind] = []
    if body.rating is not None:
        told.append("rating")
    if body.regenerated:
        told.append("regenerated")
    if body.accepted:
        told.append("accepted")
    if not told:
        raise InvalidRequest("Expected 'rating', or a true 'regenerated' or 'accepted'.", param="rating")
    return told


ROUTES: Final = (ApiRoute("POST", "/v1/feedback", give_feedback, ENDPOINT),)
