"""Compose one model of the configuration, or what a changed configuration makes of a model that is served already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.config.models.engine_checks import SESSIONS
from gateway.config.models.price import FREE
from gateway.config.models.scaling import Scaling
from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.fleets.discovery.zones import own_zone
from gateway.fleets.pool_abilities import abilities
from gateway.fleets.replica_specs import replica_specs
from gateway.models.adapter_models import has_adapters
from gateway.models.answer_lengths import AnswerLengths
from gateway.models.first_tokens import FirstTokenTimes
from gateway.models.media_rules import media_rule
from gateway.models.model_output import model_chat_format, model_output
from gateway.models.routing_settings import policy_settings
from gateway.models.served_model import ServedModel
from gateway.reload.plan import Fate, fate_of
from gateway.scheduling.admission_queue import AdmissionQueue
from gateway.scheduling.queue_at_zero import QueueAtZero
from gateway.tenancy.limits.plans import Plans
from gateway.tenancy.providers.provider_keys import KeyOf
from gateway.text.tokens.identity import tokenizer_hash
from gateway.text.tokens.loader import load_tokenizer
from gateway.text.tokens.shared_tokenizers import SharedTokenizers
from gateway.text.tokens.tokenizer import TokenizerError
from protos.types import Role
from routing.dispatch.dispatch_context import DispatchContext
from routing.estimates.decode_length import QuantileDecodeLength
from routing.fleet.fleet import Fleet
from routing.fleet.paired_fleet import PairedFleet
from routing.policies import POLICIES
from routing.policies.adapter_affinity import AdapterAffinity
from routing.policies.zone_affinity import ZoneAffinity
from routing.prefix.prefix_directory import PrefixDirectory
from routing.transports.shared_parts import SharedParts


@dataclass(frozen=True, slots=True)
class ModelParts:
    """What the models of a worker are made with. `worker` is its name, and `created` its start in Unix seconds."""

    worker: str
    created: int
    key_of: KeyOf
    shared: SharedParts


def serve_model(
    config: Config, model_index: int, parts: ModelParts, tokenizers: SharedTokenizers, last: ServedModel | None = None
) -> ServedModel:
    """Compose a configured model; what another one has loaded of the same files, or looks at, is shared with it.

    From the `last` one of the name, which goes on beside it to the end of its requests, it takes what was learned of
    clients and not of replicas.

    Raises TokenizerError and HeatmapError.
    """
    model = config.models[model_index]
    loaded = load_tokenizer(model.tokenizer, tokenizers)
    tokenizer = loaded.tokenizer
    output = model_output(model, loaded)
    policy = POLICIES[model.routing.policy](policy_settings(model))
    prefixes = PrefixDirectory() if policy.uses_prefixes else None
    sessions = any(pool.engine in SESSIONS for pool in model.pools)
    identity = tokenizers.once(("identity", tokenizer), lambda: tokenizer_hash(loaded)) if sessions else ""
    specs = replica_specs(config, model_index, parts.key_of, identity, tokenizer)
    if model.names_versions:
        # Imported here: each worker pays for what it imports.
        from gateway.models.build_versions import versioned_fleet

        fleet: Fleet = versioned_fleet(model, specs, parts.worker, prefixes, parts.shared)
    else:
        kind = PairedFleet if any(pool.role is Role.PREFILL or pool.is_discovered for pool in model.pools) else Fleet
        fleet = kind(specs, parts.worker, prefixes, abilities=abilities(model), shared=parts.shared)
    relaunch = model.reshape.relaunch if model.reshape is not None else None
    if relaunch is not None and relaunch.narrow_kv_tokens and relaunch.wide_kv_tokens:
        fleet.launch(relaunch.narrow_kv_tokens, relaunch.wide_kv_tokens)
    if own_zone() and any(pool.service is not None for pool in model.pools):
        policy = ZoneAffinity(policy, lambda: fleet.members.zones)
    if has_adapters(model):
        policy = AdapterAffinity(policy)
    dispatch_context = DispatchContext(fleet, policy, hedging=model.routing.hedging)
    scaling = model.scaling or Scaling()
    if scaling.mode == "act" and any(pool.launcher is not None for pool in model.pools):
        queue: AdmissionQueue = QueueAtZero(
            fleet, policy, config.admission, scaling.wait_seconds, cached=dispatch_context.cached
        )
    else:
        queue = AdmissionQueue(fleet, policy, config.admission, cached=dispatch_context.cached)
    versions = None
    if model.names_versions:
        from gateway.models.build_versions import model_versions

        versions = model_versions(model, fleet, queue)
    if last is not None:
        # Counted on: what clients have been told of this model does not begin again.
        queue.admissions = last.admission_queue.admissions
    return ServedModel(
        name=model.name,
        created=parts.created if last is None else last.created,
        context=model.context,
        tokenizer=tokenizer,
        table=tokenizers.table(tokenizer),
        output=output,
        marked_table=None if output is None else tokenizers.marked_table(tokenizer, output.marks),
        chat_format=model_chat_format(loaded, output),
        fleet=fleet,
        policy=policy,
        policy_name=model.routing.policy,
        dispatch_context=dispatch_context,
        lengths=AnswerLengths(QuantileDecodeLength()) if last is None else last.lengths,
        plans=Plans(model.name, model.price or FREE),
        admission_queue=queue,
        first_tokens=FirstTokenTimes(),
        price=model.price or FREE,
        fallbacks=model.fallbacks,
        relays=any(pool.engine == "openai" for pool in model.pools),
        opaque=model.tokenizer is None,
        tokenizer_hash=identity,
        media=config.listen.media,
        media_rule=media_rule(model),
        embeddings=model.embeddings,
        clamps=model.over_context == "clamp",
        thought_names=model.output.thought_names,
        from_zero=_may_be_at_zero(model),
        drifts=model.drift is not None,
        versions=versions,
    )


def adjust_model(last: ServedModel, before: Model, after: Model) -> ServedModel:
    """Make what requests look up anew, over the same fleet, queue and estimates."""
    same_price = before.price == after.price
    return replace(
        last,
        plans=last.plans if same_price else Plans(after.name, after.price or FREE),
        price=last.price if same_price else after.price or FREE,
        fallbacks=after.fallbacks,
        media_rule=media_rule(after),
        embeddings=after.embeddings,
        from_zero=_may_be_at_zero(after),
        drifts=after.drift is not None,
        versions=None if last.versions is None else last.versions.after(after),
    )


def serve_models(
    config: Config,
    parts: ModelParts,
    tokenizers: SharedTokenizers,
    before: Config | None = None,
    last: Mapping[str, ServedModel] | None = None,
) -> dict[str, ServedModel]:
    """Compose all models, each from what the `last` configuration served under its name. Raises as `serve_model`."""
    last = last or {}
    olds = {} if before is None else {model.name: model for model in before.models}
    served: dict[str, ServedModel] = {}
    for index, model in enumerate(config.models):
        old = olds.get(model.name)
        fate = fate_of(old, model)
        if fate is Fate.SAME:
            served[model.name] = last[model.name]
        elif fate is Fate.ADJUSTED and old is not None:
            served[model.name] = adjust_model(last[model.name], old, model)
        else:
            served[model.name] = serve_model(config, index, parts, tokenizers, last.get(model.name))
    return served


def load_tokenizers(models: Sequence[Model], tokenizers: SharedTokenizers) -> None:
    """Load what `serve_model` will ask of the tokenizers, off the event loop. Raises TokenizerError."""
    for model in models:
        try:
            loaded = load_tokenizer(model.tokenizer, tokenizers)
        except TokenizerError as error:
            raise TokenizerError(f"models[{model.name}].tokenizer: {error}") from error
        tokenizers.table(loaded.tokenizer)
        output = model_output(model, loaded)
        if output is not None:
            tokenizers.marked_table(loaded.tokenizer, output.marks)
        if any(pool.engine in SESSIONS for pool in model.pools):
            tokenizers.once(("identity", loaded.tokenizer), lambda loaded=loaded: tokenizer_hash(loaded))  # type: ignore[misc]


def _may_be_at_zero(model: Model) -> bool:
    """Whether the model may have no replica, by intention."""
    launched = [pool.scaling for pool in model.pools if pool.launcher is not None]
    return (
        (model.scaling or Scaling()).mode == "act"
        and len(launched) == len(model.pools)
        and all(pool is not None and pool.min == 0 for pool in launched)
    )
