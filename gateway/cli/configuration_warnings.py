"""Pure: what is valid in a configuration and most likely not meant."""

from collections.abc import Iterator, Sequence

from gateway.config.models.adapters import SEPARATOR
from gateway.config.models.addresses import dns_name, is_discovered
from gateway.config.models.model_patterns import matches
from gateway.config.models.scaling_checks import scaling_warnings
from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.config.tenants import Tenant
from routing.transports.http.origin import origin_of


def warnings_of(config: Config) -> Iterator[str]:
    """Yield a sentence for each, which begins with the path."""
    for index, tenant in enumerate(config.tenants):
        at = f"tenants[{index}]"
        for place, pattern in enumerate(tenant.models):
            if not _models((pattern,), config.models):
                yield f"{at}.models[{place}]: no model matches {pattern!r}"
        yield from _unpriced(at, tenant, config.models)
    for index, model in enumerate(config.models):
        yield from _without_path(f"models[{index}]", model)
    yield from scaling_warnings(config)


def _without_path(at: str, model: Model) -> Iterator[str]:
    """Yield the base URLs without a path: of most servers the API's paths follow /v1."""
    for p, pool in enumerate(model.pools):
        for a, address in enumerate(pool.addresses if pool.engine == "openai" else ()):
            if not _path(address):
                hint = "the base URL has no path; the API of most servers is under /v1, as in https://HOST/v1"
                yield f"{at}.pools[{p}].replicas[{a}]: {hint}"


def _path(address: str) -> str:
    if is_discovered(address):
        name = dns_name(address)
        return "" if name is None else name.path.strip("/")
    return origin_of(address).path


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
