"""`penstock check` and `penstock schema`: explain a configuration file, and print the schema of one."""

import argparse
import asyncio
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gateway.cli.command_output import shown_limits
from gateway.cli.configuration_docs import render
from gateway.cli.configuration_warnings import warnings_of
from gateway.config.errors import ConfigError
from gateway.config.models.kubernetes_checks import uses_kubernetes
from gateway.config.models.reshape.settings import Reshape
from gateway.config.models.scaling import Scaling
from gateway.config.models.settings import Model, Pool
from gateway.config.network.hosts import with_port
from gateway.config.safety.safety_checks import as_use, usual_action
from gateway.config.safety.settings import Safety, Use
from gateway.config.settings import Config, schema, usable_cores
from gateway.endpoint_picker.picker_checks import picker_problems
from gateway.models.media_rules import media_rule
from observability.terminal import fitted

_SHAPES: Final = {
    "off": "nothing is decided, operators change them",
    "advise": "advice only, operators change them",
    "apply": "changed where that is worth it",
}
_BUILT_IN: Final = {"pii": "redact", "secrets": "redact", "injection": "block"}


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `check` and `schema`."""
    check = subparsers.add_parser("check", help="validate a configuration and print what would run")
    check.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    check.set_defaults(run=_check)

    form = subparsers.add_parser("schema", help="print the configuration's JSON Schema")
    form.add_argument("--markdown", action="store_true", help="print docs/configuration.md instead")
    form.add_argument(
        "--example",
        type=Path,
        default=Path("penstock.yaml"),
        metavar="FILE",
        help="configuration that --markdown shows (default: penstock.yaml)",
    )
    form.set_defaults(run=_schema)


def _check(arguments: argparse.Namespace) -> int:
    # Imported here: tokenizer libraries take long to import, and `penstock schema` needs none.
    from gateway.server.checked_configuration import checked_configuration
    from gateway.store.configured_store import store_trouble

    source = str(arguments.config)
    try:
        config = checked_configuration(arguments.config)
        trouble = asyncio.run(store_trouble(config))
        if trouble is not None and trouble.refused:
            raise ConfigError(source, "store.url", f"the store at {config.store.shown_url}: {trouble}")
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{arguments.config} is valid. penstock serve would run:\n")
    print("\n".join(_summary(config, usable_cores())))
    for line in _picker_summary(config):
        print(line)
    for warning in warnings_of(config):
        print(f"warning: {arguments.config}: {warning}", file=sys.stderr)
    if trouble is not None:
        # The gateway may run on another machine, or the store may not run yet.
        print(f"\nwarning: the store cannot be used from here now: {trouble}", file=sys.stderr)
    if uses_kubernetes(config):
        from gateway.scaling.kubernetes.cluster_check import cluster_trouble  # deferred: it needs an extra

        for line in asyncio.run(cluster_trouble(config)):
            # Nor need the cluster be reachable from here, or have everything already.
            print(f"warning: {arguments.config}: {line}", file=sys.stderr)
    return 0


def _schema(arguments: argparse.Namespace) -> int:
    if not arguments.markdown:
        print(json.dumps(schema(), indent=2))
        return 0
    try:
        example = arguments.example.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"{arguments.example}: cannot be read: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 1
    sys.stdout.write(render(example))
    return 0


def _summary(config: Config, cores: int) -> Iterator[str]:
    """Describe what a configuration starts and connects to, line by line."""
    workers = config.listen.worker_count(cores)
    store = f"embedded Valkey, data in {config.state_dir}" if config.store.embedded else config.store.shown_url
    yield f"listen   {with_port(config.listen.host, config.listen.port)}"
    yield f"workers  {workers}{f' (auto: one for each of {cores} cores)' if config.listen.workers == 'auto' else ''}"
    yield f"store    {store}"
    yield f"admin    {with_port(config.admin.host, config.admin.port) if config.admin.enabled else 'off'}"
    for model in config.models:
        yield ""
        yield from _model_summary(model)
        for one in config.rollouts:
            if one.model == model.name:
                plan = one.plan.replace("_", "-")
                yield f"  rollout    to {one.to} ({plan}), which starts when it is new here, and once only"
    yield ""
    yield from _safety_summary(config.safety)
    yield ""
    yield from _tenants_summary(config)


def _picker_summary(config: Config) -> Iterator[str]:
    """Describe what `penstock epp` would run with the same file; nothing where it cannot, and nothing asks for it."""
    wanted = config.epp != type(config.epp)()
    wanted |= any(pool.inference_pool is not None for model in config.models for pool in model.pools)
    for where, problem in picker_problems(config):
        if wanted:
            yield f"\npenstock epp would refuse this file: {where}: {problem}"
        return
    yield ""
    epp = config.epp
    address, health, metrics = (with_port(epp.host, port) for port in (epp.port, epp.health_port, epp.metrics_port))
    yield "penstock epp would run:"
    yield f"  listen   {address}{'' if epp.tls is None else ' (TLS)'}, health {health}, metrics http://{metrics}/metrics"
    yield f"  models   {', '.join(model.name for model in config.models)}"


def _safety_summary(safety: Safety) -> Iterator[str]:
    """Describe which filters see prompts and answers."""
    rows = [("RULES", "PROMPTS", "ANSWERS", "ON FAILURE")]
    named = [(policy.name, policy) for policy in safety.policies]
    for name, rules in (("(default)", safety), *named):
        rows.append((name, _uses(safety, rules.input), _uses(safety, rules.output), rules.on_failure))
    if len(rows) == 2 and not (safety.input or safety.output):
        yield "filters  none look at prompts or answers"
        return
    yield "filters"
    yield from _indented(rows)


def _uses(safety: Safety, uses: Sequence[str | Use]) -> str:
    settings = {one.name: one for one in safety.filters}

    def action(use: Use) -> str:
        usual = usual_action(settings[use.filter]) if use.filter in settings else _BUILT_IN[use.filter]
        return use.action or usual

    return ", ".join(f"{use.filter} ({action(use)})" for use in map(as_use, uses)) or "-"


def _tenants_summary(config: Config) -> Iterator[str]:
    """Describe the tiers and, as far as this file says, their tenants."""
    yield "tiers, from the highest"
    rows = [("TIER", "WEIGHT", "RESERVED")]
    rows += [(tier.name, f"{tier.weight:g}", f"{100 * tier.reserved:g} %") for tier in config.tiers]
    yield from _indented(rows)
    yield ""
    if not config.tenants:
        yield "tenants  none in this file; others may come from the admin API, and keys without one have `default`"
        return
    yield "tenants of this file"
    tenants = [("TENANT", "TIER", "MODELS", "LIMITS", "FILTERS")]
    tenants += [
        (
            tenant.name,
            config.tier(tenant.tier)[1].name,
            ", ".join(tenant.models),
            shown_limits(tenant.limits) or "none",
            tenant.safety or "(default)",
        )
        for tenant in config.tenants
    ]
    yield from _indented(tenants)


def _model_summary(model: Model) -> Iterator[str]:
    bundled = " (bundled)" if model.tokenizer is not None and model.tokenizer_path is None else ""
    yield f"model {model.name}"
    yield f"  context    {model.context} tokens"
    yield f"  tokenizer  {model.tokenizer or 'its upstreams have it'}{bundled}"
    if any(pool.engine == "openai" for pool in model.pools):
        yield f"  media      {media_rule(model).name}, until the upstream says its own counts"
    yield f"  routing    {model.routing.policy}"
    if model.names_versions:
        others = [version for version in model.pool_versions if version != model.stable_version]
        yield f"  versions   {', '.join([f'{model.stable_version} (stable)', *others])}"
    if model.price is not None:
        cached = model.price.input if model.price.cached_input is None else model.price.cached_input
        prices = f"{model.price.input:g} input, {cached:g} cached input, {model.price.output:g} output"
        for name in ("cache_write", "cache_write_1h", "audio_input", "audio_output"):
            price = getattr(model.price, name)
            prices += "" if price is None else f", {price:g} {name.replace('_', ' ')}"
        yield f"  price      {prices} (US dollars per million tokens)"
    if model.fallbacks is not None:
        yield f"  fallbacks  {', '.join(model.fallbacks.models)} (order: {model.fallbacks.order})"
    if model.safety is not None:
        yield f"  safety     {model.safety}, beside its tenants' rules"
    if model.adapters:
        yield f"  adapters   {', '.join(adapter.name for adapter in model.adapters)}"
    if any(pool.launcher is not None for pool in model.pools):
        yield f"  scaling    {_scaling_summary(model.scaling or Scaling())}"
    if model.reshape is not None:
        yield f"  shapes     {_shapes_summary(model.reshape, model.pools)}"
    rows = [("POOL", "SHAPE", "ROLE", "ENGINE", "REPLICAS", "GPUS", "WHERE"), *map(_pool_row, model.pools)]
    yield from _indented(rows)
    pools, replicas = len(model.pools), sum(pool.replica_count for pool in model.pools)
    gpus = sum(pool.replica_count * pool.shape.value.gpus for pool in model.pools if pool.engine != "openai")
    found = ""
    if any(pool.is_discovered and pool.launcher is None for pool in model.pools):
        found += ", and those that are discovered"
    if any(pool.launcher is not None for pool in model.pools):
        found += ", and those that are launched"
    yield f"  {_counted(pools, 'pool')}, {_counted(replicas, 'replica')}, {_counted(gpus, 'GPU')}{found}"


def _scaling_summary(scaling: Scaling) -> str:
    budget = (
        "no budget" if scaling.budget_per_hour is None else f"budget {scaling.budget_per_hour:g} US dollars an hour"
    )
    advice = "advice only, nothing is started or stopped; " if scaling.mode == "advise" else ""
    return f"{advice}{100 * scaling.in_time:g} % in time, {budget}"


def _shapes_summary(reshape: Reshape, pools: Sequence[Pool]) -> str:
    words = [_SHAPES[reshape.mode]]
    if reshape.relaunch is not None:
        words.append(f"replicas of {reshape.relaunch.narrow} and {reshape.relaunch.wide} take each other's GPUs")
    words += [f"groups of {pool.group_gpus} GPUs in {pool.name}" for pool in pools if pool.group_gpus is not None]
    return "; ".join(words)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _pool_row(pool: Pool) -> tuple[str, ...]:
    shape = pool.shape.value
    degrees = " ".join(
        f"{name}{degree}"
        for name, degree in (("tp", shape.tp), ("ep", shape.ep), ("pp", shape.pp))
        if degree > 1 or name == "tp"
    )
    gpus = f"{pool.replica_count * shape.gpus}{' simulated' if pool.engine == 'simulated' else ''}"
    if pool.engine == "openai":
        gpus = "-"  # its owner's
    where = "started here" if pool.local_replicas else pool.found_at
    count = f"{pool.replica_count}{' or more' if pool.is_discovered else ''}"
    if pool.scaling is not None:
        where, count = f"launched: {pool.launcher}", f"{pool.scaling.min} to {pool.scaling.max}"
        gpus = f"{shape.gpus} each{' simulated' if pool.engine == 'simulated' else ''}"
    return (pool.name, degrees, pool.role.value, pool.engine, count, gpus, where)


def _indented(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    width = shutil.get_terminal_size((sys.maxsize, 0)).columns
    return (f"  {line}".rstrip() for line in fitted(rows, width - 2))
