"""Rules of `rollouts` and of models' versions that span fields."""

import re
from collections.abc import Iterator
from itertools import pairwise

from gateway.config.alerts import webhook_problems
from gateway.config.errors import echo
from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.config.tenant_checks import repeated
from gateway.config.tenants import NAME
from routing.rollouts.settings import Rollout, RolloutSplit, ShadowSettings

Problems = Iterator[tuple[str, str]]


def version_problems(model: Model, where: str) -> Problems:
    """Yield (path, problem) for each violated rule of a model's versions."""
    if not model.names_versions:
        if model.versions:
            yield f"{where}.versions", "only for a model that names its `stable` version, or several in its pools"
        return
    if not model.stable_version:
        yield f"{where}.stable", "required: the first pool names no version, and others name several"
    elif model.stable is not None and not _may_have(model, model.stable):
        yield f"{where}.stable", _no_version(model, model.stable)
    for p, pool in enumerate(model.pools):
        if not pool.version and (pool.engine in ("openai", "trtllm_grpc") or pool.local_replicas):
            yield (
                f"{where}.pools[{p}].version",
                "required: requests of this model go by version, and these replicas say none themselves",
            )
    for version in model.versions:
        if not _may_have(model, version):
            yield f"{where}.versions.{version}", _no_version(model, version)


def rollout_problems(config: Config) -> Problems:
    """Yield (path, problem) for each violated rule of the rollouts."""
    yield from repeated([rollout.model for rollout in config.rollouts], "rollouts", ".model")
    models = {model.name: model for model in config.models}
    for r, rollout in enumerate(config.rollouts):
        where = f"rollouts[{r}]"
        model = models.get(rollout.model)
        if model is None:
            yield f"{where}.model", f"there is no model {echo(rollout.model)}; there are {', '.join(models)}"
            continue
        yield from _target_problems(rollout, model, where)
        yield from _plan_problems(rollout, where)
        yield from _split_problems(rollout.split, config, f"{where}.split")
        yield from _shadow_problems(rollout.shadow, config, f"{where}.shadow")
        yield from webhook_problems(rollout.webhook, f"{where}.webhook")


def _target_problems(rollout: Rollout, model: Model, where: str) -> Problems:
    if not model.names_versions:
        yield f"{where}.model", "its requests do not go by version: the model needs `stable`"
    elif rollout.to == model.stable_version:
        # What is stable by an earlier rollout is for the controller to see.
        yield f"{where}.to", f"the version {echo(rollout.to)} is the stable one"
    elif not _may_have(model, rollout.to):
        yield f"{where}.to", _no_version(model, rollout.to)


def _plan_problems(rollout: Rollout, where: str) -> Problems:
    stages = rollout.stages
    if stages is not None:
        if rollout.plan == "shadow":
            yield f"{where}.stages", "a shadow answers no client, so it has no stages"
        elif rollout.plan == "ab" and len(stages) > 1:
            yield f"{where}.stages", f"an A/B test keeps one share, got {len(stages)}"
        for index, (share, following) in enumerate(pairwise(stages)):
            if following <= share:
                yield f"{where}.stages[{index + 1}]", f"stages must rise, got {following:g} after {share:g}"
        if rollout.plan not in ("shadow", "ab") and stages[-1] < 1:
            yield f"{where}.stages[{len(stages) - 1}]", f"the last stage must be 1, got {stages[-1]:g}"
    if rollout.plan == "ab" and rollout.goal is None:
        yield f"{where}.goal", "required: an A/B test is about one measure"
    elif rollout.plan != "ab" and rollout.goal is not None:
        yield f"{where}.goal", f"only for the plan ab, not {rollout.plan}"


def _split_problems(split: RolloutSplit, config: Config, where: str) -> Problems:
    if split.by == "header" and split.header is None:
        yield f"{where}.header", "required: `by: header` needs a header's name"
    elif split.by != "header" and split.header is not None:
        yield f"{where}.header", f"only for `by: header`, not {split.by}"
    for kind, names in (("tenants", split.tenants), ("tiers", split.tiers)):
        for index, name in enumerate(names):
            if re.match(NAME, name) is None:
                yield f"{where}.{kind}[{index}]", f"expected a name (`{NAME}`), got {echo(name)}"
    yield from repeated(split.tenants, f"{where}.tenants")
    yield from repeated(split.tiers, f"{where}.tiers")
    tiers = [tier.name for tier in config.tiers]
    for index, tier in enumerate(split.tiers):
        if tier not in tiers:
            yield f"{where}.tiers[{index}]", f"there is no tier {echo(tier)}; there are {', '.join(tiers)}"


def _shadow_problems(shadow: ShadowSettings, config: Config, where: str) -> Problems:
    if shadow.similarity != "embeddings":
        if shadow.embeddings is not None:
            yield f"{where}.embeddings", "only for `similarity: embeddings`"
    elif shadow.embeddings is None:
        yield f"{where}.embeddings", "required: `similarity: embeddings` needs a model that makes them"
    elif shadow.embeddings not in config.model_names:
        yield f"{where}.embeddings", f"there is no model {echo(shadow.embeddings)}"


def _may_have(model: Model, version: str) -> bool:
    """Whether replicas of the version can be there: a pool names it, or one names none, so that its replicas do."""
    return any(pool.version in ("", version) for pool in model.pools)


def _no_version(model: Model, version: str) -> str:
    return f"the model has no version {echo(version)}; its pools have {', '.join(model.pool_versions)}"
