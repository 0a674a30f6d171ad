"""Pure: the models that a request is tried on, in order."""

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.config.models.fallbacks import Fallbacks
from gateway.config.models.price import Price
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from protos.errors import (
    ContextLengthExceeded,
    Overloaded,
    PenstockError,
    ReplicaFailed,
    ReplicaUnavailable,
    UnsupportedParameter,
)

#: Errors of a model that can never take the request.
UNFIT_ERRORS: Final[tuple[type[PenstockError], ...]] = (ContextLengthExceeded, UnsupportedParameter)
#: Errors after which the next model of the chain is tried.
FALLBACK_ERRORS: Final[tuple[type[PenstockError], ...]] = (
    ReplicaUnavailable,
    ReplicaFailed,
    Overloaded,
    *UNFIT_ERRORS,
)


def chain(
    requested: ServedModel,
    models: Mapping[str, ServedModel],
    caller: Caller,
    prompt: int,
    max_tokens: int | None,
    n: int,
) -> Sequence[ServedModel]:
    """Order the models that a request for `requested` is tried on; at least one.

    Models that the caller may not use are left out. The prompt has about `prompt` tokens, and `max_tokens` is the
    bound of each of the `n` answers (None: what the context leaves).
    """
    given = requested.fallbacks
    if given is None:
        return (requested,)
    others = [models[name] for name in given.models if caller.allows_model(name)]

    def cost(model: ServedModel) -> float:
        return expected_usd(model, prompt, max_tokens, n)

    if given.order == "cost":
        others.sort(key=cost)
    elif given.order == "latency":
        others.sort(key=lambda model: model.first_tokens.seconds)
    found = [requested, *others]
    if given.usd is not None:
        found = [model for model in found if cost(model) <= given.usd] or [min(found, key=cost)]
    return found


def expected_usd(model: ServedModel, prompt: int, max_tokens: int | None, n: int) -> float:
    """Estimate a request's cost in USD: the prompt of about so many tokens, the answers at their longest."""
    price: Price = model.price
    output = max(0, model.context - prompt) if max_tokens is None else max_tokens
    return (prompt * price.input + n * output * price.output) / 1_000_000


def first_token_timeout(given: Fallbacks | None) -> float | None:
    """Give the seconds that a model has until its first token while another one remains; None: the whole deadline."""
    return None if given is None or given.ttft_ms is None else given.ttft_ms / 1000
