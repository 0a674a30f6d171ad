"""Routing rules: which settings each policy allows, and which pools go together."""

from collections.abc import Iterator

from gateway.config.errors import echo
from gateway.config.models.routing import USED_BY
from gateway.config.models.settings import Model
from protos.types import Role


def routing_problems(model: Model, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule of a model's routing and of its pools' roles."""
    yield from _role_problems(model, where)
    routing = model.routing
    inside = f"{where}.routing"
    for setting, policies in USED_BY.items():
        if getattr(routing, setting) not in (None, ()) and routing.policy not in policies:
            yield f"{inside}.{setting}", f"only for {' and '.join(policies)}, and the policy is {routing.policy}"
    long = routing.long_context_tokens
    if long is not None and long > model.context:
        yield f"{inside}.long_context_tokens", f"must be at most the context, {model.context}, got {long}"
    yield from _tier_problems(model, inside)
    yield from _heatmap_problems(model, inside)


def _role_problems(model: Model, where: str) -> Iterator[tuple[str, str]]:
    """Check that prefill and decode pools exist together, and that KV is only transferred between like engines."""
    legs = [(p, pool) for p, pool in enumerate(model.pools) if pool.role is not Role.BOTH]
    for p, pool in legs:
        partner = Role.DECODE if pool.role is Role.PREFILL else Role.PREFILL
        if not any(other.role is partner for _, other in legs):
            problem = f"a {pool.role.value} pool needs a {partner.value} pool, and the model has none"
            yield f"{where}.pools[{p}].role", problem
        first, other = legs[0]
        engine: str = other.engine
        if pool.engine != engine:
            yield (
                f"{where}.pools[{p}].engine",
                "prefill and decode pools hand KV to each other and need one engine: "
                f"pools[{first}] has {echo(engine)}, this one {echo(pool.engine)}",
            )


def _tier_problems(model: Model, where: str) -> Iterator[tuple[str, str]]:
    tiers, threshold = model.routing.tiers, model.routing.threshold
    if not tiers:
        return
    if len(tiers) == 1:
        yield f"{where}.tiers", "one tier is none; expected at least 2"
    if isinstance(threshold, int):
        yield f"{where}.threshold", "the tiers have bounds of their own; it can only be learned beside them"
    pools = {pool.name for pool in model.pools}
    bound = 0
    for t, tier in enumerate(tiers):
        inside = f"{where}.tiers[{t}]"
        for n, name in enumerate(tier.pools):
            if name not in pools:
                yield f"{inside}.pools[{n}]", f"the model has no pool {echo(name)}; it has {', '.join(sorted(pools))}"
        last = t == len(tiers) - 1
        if threshold == "learned" or last:
            if tier.below is not None:
                why = "the bounds are learned" if threshold == "learned" else "the last tier has no bound"
                yield f"{inside}.below", f"{why}, got {tier.below}"
        elif tier.below is None:
            yield f"{inside}.below", "required for every tier but the last one"
        elif tier.below <= bound:
            yield f"{inside}.below", f"must be above the tier's before, {bound}, got {tier.below}"
        else:
            bound = tier.below


def _heatmap_problems(model: Model, where: str) -> Iterator[tuple[str, str]]:
    """Check that a heatmap has both pairs and colocated replicas to choose from."""
    routing = model.routing
    roles = {pool.role for pool in model.pools}
    mixed = Role.BOTH in roles and len(roles) > 1
    if routing.policy == "pd_heatmap" and not mixed:
        lacking = "prefill and decode pools" if Role.BOTH in roles else "pools of the role both"
        yield (
            f"{where}.policy",
            f"pd_heatmap chooses between pairs and replicas of the role both, and the model has no {lacking}",
        )
    elif routing.policy in USED_BY["heatmap"] and mixed and routing.heatmap is None:
        yield f"{where}.heatmap", f"required by {routing.policy}; penstock bench heatmap writes one"
    elif routing.policy == "combined" and not mixed and routing.heatmap is not None:
        yield f"{where}.heatmap", "of no use without both pairs and pools of the role both"
