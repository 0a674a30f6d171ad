"""`x-penstock-explain` and `x-penstock-route`: explain a request's routing decision to its client."""

import enum
import logging

import msgspec

from gateway.api.server.http_exchange import HttpExchange
from gateway.inference.dry_run import dry_run
from gateway.inference.generate_request import GenerateRequest
from gateway.inference.request_context import RequestContext
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from protos.errors import ExplainNotAllowed, InvalidRequest
from routing.contracts.explained_policy import ExplainedPolicy
from routing.contracts.explanation import RouteExplanation, brief

log = logging.getLogger(__name__)

ASKING = "x-penstock-explain"
ANSWER = b"x-penstock-route"


class Explain(enum.Enum):
    """Values of the header: the explanation beside the answer, or alone."""

    ROUTE = b"1"
    DRY_RUN = b"dry-run"


def parse_explain(value: bytes, caller: Caller) -> Explain:
    """Parse `x-penstock-explain`. Raises ExplainNotAllowed or InvalidRequest."""
    if not caller.key.explain:
        raise ExplainNotAllowed(
            f"This API key may not see why its requests go where they go; leave the header '{ASKING}' out.",
            param=ASKING,
        )
    try:
        return Explain(value)
    except ValueError:
        raise InvalidRequest(f"Invalid value for the header '{ASKING}': expected 1 or dry-run.", param=ASKING) from None


def explained_policy(model: ServedModel) -> ExplainedPolicy:
    """Wrap the model's policy for one request, to record its decisions."""
    if model.versions is None:
        return ExplainedPolicy(model.policy, model=model.shown, name=model.policy_name)
    named = model.versions.named
    return ExplainedPolicy(model.policy, model=model.shown, name=model.policy_name, version_of=named)


def show_route(exchange: HttpExchange, explained: ExplainedPolicy) -> None:
    """Add the decision so far to answers and errors, in one line."""
    of_caller = exchange.caller_headers

    def headers() -> list[tuple[bytes, bytes]]:
        explanation = explained.explanation()
        if explanation is None:
            return of_caller()
        return [*of_caller(), (ANSWER, brief(explanation).encode("ascii"))]

    exchange.caller_headers = headers


async def answer_dry_run(
    exchange: HttpExchange, request: GenerateRequest, context: RequestContext, explained: ExplainedPolicy
) -> None:
    """Answer with the decision for the request. Raises the refusals of limits and of the prompt."""
    explanation = await dry_run(request, context, explained)
    exchange.unwatch()
    log_explanation(explanation, dry=True)
    await exchange.respond(200, explanation_body(explanation))


def explanation_body(explanation: RouteExplanation) -> bytes:
    """Encode the explanation as JSON."""
    return msgspec.json.encode(explanation)


def log_explanation(explanation: RouteExplanation | None, *, dry: bool = False) -> None:
    """Log one line for each explained request that reached a decision."""
    if explanation is not None:
        what = "dry run" if dry else "route"
        log.info("request %s: model %s, %s %s", explanation.request_id, explanation.model, what, brief(explanation))
