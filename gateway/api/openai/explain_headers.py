"""`x-penstock-explain` and `x-penstock-route`: what a client sees of why its request goes where it goes."""

import enum
import logging
from collections.abc import Iterator
from contextlib import contextmanager

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
    """What the header asks for: the answer with the reason beside it, or the reason alone."""

    ROUTE = b"1"
    DRY_RUN = b"dry-run"


def explain_wanted(value: bytes, caller: Caller) -> Explain:
    """What `x-penstock-explain` asks for. Raises ExplainNotAllowed or InvalidRequest."""
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
    """The model's policy for one request whose decisions are to be told."""
    return ExplainedPolicy(model.policy, model=model.shown, name=model.policy_name)


@contextmanager
def showing_route(exchange: HttpExchange, explained: ExplainedPolicy) -> Iterator[None]:
    """In this context answers and errors carry what was decided by then in one line; the log has it at the end."""
    of_caller = exchange.caller_headers

    def headers() -> list[tuple[bytes, bytes]]:
        explanation = explained.explanation()
        if explanation is None:
            return of_caller()
        return [*of_caller(), (ANSWER, brief(explanation).encode("ascii"))]

    exchange.caller_headers = headers
    try:
        yield
    finally:
        log_explanation(explained.explanation())


async def answer_dry_run(
    exchange: HttpExchange, request: GenerateRequest, context: RequestContext, explained: ExplainedPolicy
) -> None:
    """Answer with where the request would go. Raises what limits and the prompt are refused with."""
    explanation = await dry_run(request, context, explained)
    exchange.unwatch()
    log_explanation(explanation, dry=True)
    await exchange.respond(200, explanation_body(explanation))


def explanation_body(explanation: RouteExplanation) -> bytes:
    """All of it as JSON."""
    return msgspec.json.encode(explanation)


def log_explanation(explanation: RouteExplanation | None, *, dry: bool = False) -> None:
    """One line for each explained request that came to be decided."""
    if explanation is not None:
        what = "dry run" if dry else "route"
        log.info("request %s: model %s, %s %s", explanation.request_id, explanation.model, what, brief(explanation))
