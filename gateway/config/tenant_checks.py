"""Rules of tenants, tiers and keys that span fields or that a type cannot say.

Each gives (path, problem) pairs, for the configuration as for the admin API and the command line.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from gateway.config.errors import echo
from gateway.config.models.model_patterns import covers
from gateway.config.tenants import Limits, Tenant, Tier

Problems = Iterator[tuple[str, str]]

_MOST_MODEL_LIMITS: Final = 256
#: Tolerance for rounding errors when decimal fractions add up to 1.
_ROUNDING: Final = 1e-9


def tier_problems(tiers: Sequence[Tier]) -> Problems:
    """Yield (path, problem) for each violated rule of the configuration's tiers."""
    yield from repeated([tier.name for tier in tiers], "tiers", ".name")
    reserved = sum(tier.reserved for tier in tiers)
    if reserved > 1 + _ROUNDING:
        yield "tiers", f"they reserve {reserved:g} of the fleet together; `reserved` may sum up to 1"


def tenants_problems(
    tenants: Sequence[Tenant], tiers: Collection[str], models: Collection[str], policies: Collection[str]
) -> Problems:
    """Yield (path, problem) for each violated rule of the configuration's tenants."""
    yield from repeated([tenant.name for tenant in tenants], "tenants", ".name")
    for index, tenant in enumerate(tenants):
        for path, problem in tenant_problems(tenant, tiers, models, policies):
            yield f"tenants[{index}].{path}", problem


def tenant_problems(
    tenant: Tenant, tiers: Collection[str], models: Collection[str], policies: Collection[str]
) -> Problems:
    """Yield (path, problem) for each violated rule of one tenant, given the known tiers, models and safety policies."""
    if tenant.tier is not None and tenant.tier not in tiers:
        yield "tier", f"there is no tier {echo(tenant.tier)}; there are {', '.join(tiers)}"
    if tenant.safety is not None and tenant.safety not in policies:
        there = f"there are {', '.join(policies)}" if policies else "there is none in safety.policies"
        yield "safety", f"there is no policy {echo(tenant.safety)}; {there}"
    yield from pattern_problems(tenant.models, "models")
    yield from limits_problems(tenant.limits, "limits")
    if len(tenant.model_limits) > _MOST_MODEL_LIMITS:
        yield "model_limits", f"at most {_MOST_MODEL_LIMITS} models, got {len(tenant.model_limits)}"
    for name, limits in tenant.model_limits.items():
        if name not in models:
            yield (
                f"model_limits.{name}",
                f"no model {echo(name)} is served (patterns have no place here); there are {', '.join(models)}",
            )
        yield from limits_problems(limits, f"model_limits.{name}")


def limits_problems(limits: Limits, where: str) -> Problems:
    """Yield (path, problem) for each violated rule of a set of limits; each path begins with `where`."""
    default, most = limits.default_output_tokens, limits.max_output_tokens
    if default is not None and most is not None and default > most:
        yield f"{where}.default_output_tokens", f"must not be above max_output_tokens ({most}), got {default}"
    if limits.budget is not None:
        yield from repeated(limits.budget.alerts, f"{where}.budget.alerts")


def pattern_problems(patterns: Sequence[str], where: str) -> Problems:
    """Yield (path, problem) for each pattern that another one of the list covers: one of the two is a mistake."""
    for index, pattern in enumerate(patterns):
        for other, wider in enumerate(patterns):
            # Of two patterns that cover each other the later one is reported.
            if other != index and covers(wider, pattern) and (other < index or not covers(pattern, wider)):
                same = "is already in the list" if wider == pattern else f"is already covered by {echo(wider)}"
                yield f"{where}[{index}]", f"{echo(pattern)} {same}"
                break


def repeated(values: Iterable[object], where: str, field: str = "") -> Problems:
    """Yield (path, problem) for a value, or a field's value, that occurs twice in the list at `where`."""
    seen: dict[object, int] = {}
    for index, value in enumerate(values):
        first = seen.setdefault(value, index)
        if first != index:
            before = f"taken by {where}[{first}]{field}" if field else "in the list"
            yield f"{where}[{index}]{field}", f"{echo(value)} is already {before}"
