"""Pure: what is valid in a configuration and most likely not meant."""

from collections.abc import Iterator, Sequence

from gateway.config.model_patterns import matches
from gateway.config.models.adapters import SEPARATOR
from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.config.tenants import Tenant


def warnings_of(config: Config) -> Iterator[str]:
    """Yield a sentence for each, which begins with the path."""
    for index, tenant in enumerate(config.tenants):
        at = f"tenants[{index}]"
        for place, pattern in enumerate(tenant.models):
            if not _models((pattern,), config.models):
                yield f"{at}.models[{place}]: no model matches {pattern!r}"
        yield from _unpriced(at, tenant, config.models)


def _unpriced(at: str, tenant: Tenant, models: Sequence[Model]) -> Iterator[str]:
    """Yield the budgets from which some requests take nothing."""
    usable = _models(tenant.models, models)
    budgets = [(f"{at}.limits.budget", tenant.limits, usable)]
    for name, limits in tenant.model_limits.items():
        budgets.append((f"{at}.model_limits.{name}.budget", limits, [model for model in usable if model.name == name]))
    for path, limits, spending in budgets:
        free = [model.name for model in spending if model.price is None or not model.price.costs]
        if limits.budget is None:
            continue
        if len(free) == len(spending):
            yield f"{path}: nothing is ever spent, for none of its models has a price"
        elif free:
            yield f"{path}: nothing is spent on {', '.join(free)}, without a price"


def _models(patterns: Sequence[str], models: Sequence[Model]) -> list[Model]:
    """Give the models that the patterns allow, by their own names or by those of their adapters."""
    return [
        model
        for model in models
        if any(
            matches(patterns, name)
            for name in (model.name, *(f"{model.name}{SEPARATOR}{adapter.name}" for adapter in model.adapters))
        )
    ]
