"""Pure: which models a request is given to, one after the other."""

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.config.models.fallbacks import Fallbacks
from gateway.config.models.price import Price
from gateway.inference.prompt_encoding import estimated_prompt
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

#: A model that cannot take the request at all, now or later.
CANNOT_TAKE: Final[tuple[type[PenstockError], ...]] = (ContextLengthExceeded, UnsupportedParameter)
#: What another model may do better at.
FALLS_OVER: Final[tuple[type[PenstockError], ...]] = (ReplicaUnavailable, ReplicaFailed, Overloaded, *CANNOT_TAKE)


def chain(
    asked: ServedModel, models: Mapping[str, ServedModel], caller: Caller, size: int, max_tokens: int | None, n: int
) -> Sequence[ServedModel]:
    """The models that a request for `asked` is given to, in this order; at least one.

    Those that the caller may not use are left out. `size` is the body's, in bytes, and `max_tokens` what each of `n`
    answers may have, None: what the context leaves.
    """
    given = asked.fallbacks
    if given is None:
        return (asked,)
    others = [models[name] for name in given.models if caller.allows_model(name)]

    def cost(model: ServedModel) -> float:
        return expected_usd(model, size, max_tokens, n)

    if given.order == "cost":
        others.sort(key=cost)
    elif given.order == "latency":
        others.sort(key=lambda model: model.first_tokens.seconds)
    found = [asked, *others]
    if given.usd is not None:
        found = [model for model in found if cost(model) <= given.usd] or [min(found, key=cost)]
    return found


def expected_usd(model: ServedModel, size: int, max_tokens: int | None, n: int) -> float:
    """What a request may cost: its prompt by its size, and answers as long as they may become."""
    price: Price = model.price
    prompt = estimated_prompt(size).tokens
    output = max(0, model.context - prompt) if max_tokens is None else max_tokens
    return (prompt * price.input + n * output * price.output) / 1_000_000


def patience(given: Fallbacks | None) -> float | None:
    """Seconds that a model has until its first token while there is another one; None: all that the request has."""
    return None if given is None or given.ttft_ms is None else given.ttft_ms / 1000
