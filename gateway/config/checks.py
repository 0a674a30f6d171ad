"""Configuration rules that span fields or that a type cannot say; tenants and tiers have theirs in `tenant_checks`."""

from collections.abc import Iterator

from gateway.config.alerts import alerts_problems
from gateway.config.api_keys import secret_problems
from gateway.config.discovery import discovery_problems
from gateway.config.errors import echo
from gateway.config.files import file_problems
from gateway.config.listen import listen_problems
from gateway.config.models.adapters import SEPARATOR
from gateway.config.models.engine_checks import pool_problems, runs_adapters
from gateway.config.models.kubernetes_checks import kubernetes_problems
from gateway.config.models.output import output_problems
from gateway.config.models.reshape.checks import reshape_problems
from gateway.config.models.rollout_checks import rollout_problems, version_problems
from gateway.config.models.routing_checks import routing_problems
from gateway.config.models.scaling_checks import scaling_problems
from gateway.config.models.settings import Model, Pool
from gateway.config.models.upstream import UpstreamSettings
from gateway.config.network.hosts import host_problems
from gateway.config.network.rpc import rpc_problems
from gateway.config.observability.journal import journal_problems
from gateway.config.safety.safety_checks import policy_names, safety_problems
from gateway.config.settings import Config
from gateway.config.store.settings import store_problems
from gateway.config.tenant_checks import tenants_problems, tier_problems


def problems(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule that spans fields or that a type cannot say."""
    yield from store_problems(config.store)
    if config.admin.enabled and config.admin.port == config.listen.port:
        # Workers would share the port, and the kernel would give each request to one of them.
        yield "admin.port", f"the admin API cannot share port {config.admin.port} with the gateway"
    yield from listen_problems(config.listen)
    yield from host_problems(config.admin.host, "admin.host")
    yield from rpc_problems(config.epp, config.external_scaler)
    yield from alerts_problems(config.alerts)
    yield from secret_problems(config)
    yield from discovery_problems(config.discovery)
    yield from tier_problems(config.tiers)
    yield from safety_problems(config)
    yield from journal_problems(config.observability.journal, "observability.journal")
    yield from file_problems(config.files, "files")
    tiers, policies = [tier.name for tier in config.tiers], policy_names(config.safety.policies)
    yield from tenants_problems(config.tenants, tiers, config.model_names, policies)
    yield from scaling_problems(config)
    yield from kubernetes_problems(config)
    yield from reshape_problems(config)
    names: dict[str, str] = {}
    addresses: dict[str, str] = {}
    for m, model in enumerate(config.models):
        where = f"models[{m}]"
        yield from _repeated(names, model.name, f"{where}.name")
        for a, alias in enumerate(model.aliases):
            yield from _repeated(names, alias, f"{where}.aliases[{a}]")
        if model.tokenizer is None and any(pool.engine != "openai" for pool in model.pools):
            yield f"{where}.tokenizer", "required: only openai replicas can be asked without token ids"
        pool_names: dict[str, str] = {}
        upstreams: dict[tuple[str, str], str] = {}
        for p, pool in enumerate(model.pools):
            inside = f"{where}.pools[{p}]"
            yield from _repeated(pool_names, pool.name, f"{inside}.name")
            yield from pool_problems(pool, inside)
            for a, address in enumerate(pool.addresses):
                # One server with the API may have many models, and accounts; any other replica has one.
                if pool.engine == "openai":
                    yield from _repeated_upstream(upstreams, pool, address, f"{inside}.replicas[{a}]")
                else:
                    yield from _repeated(addresses, address, f"{inside}.replicas[{a}]")
        yield from routing_problems(model, where)
        yield from output_problems(model.output, model.tokenizer, where)
        yield from _fallback_problems(config, model, where)
        yield from _adapter_problems(config, model, where)
        yield from version_problems(model, where)
    yield from rollout_problems(config)


def _adapter_problems(config: Config, model: Model, where: str) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    pools = {pool.name for pool in model.pools}
    for a, adapter in enumerate(model.adapters):
        inside = f"{where}.adapters[{a}]"
        yield from _repeated(seen, adapter.name, f"{inside}.name")
        if (full := f"{model.name}{SEPARATOR}{adapter.name}") in (*config.model_names, *config.aliases):
            yield f"{inside}.name", f"there is a model of the name {echo(full)}, which clients would get"
        for p, pool in enumerate(adapter.pools):
            if pool not in pools:
                yield f"{inside}.pools[{p}]", f"the model has no pool {echo(pool)}"
    yield from _unserved_adapters(model, where)


def _unserved_adapters(model: Model, where: str) -> Iterator[tuple[str, str]]:
    able = {pool.name for pool in model.pools if runs_adapters(pool)}
    for a, adapter in enumerate(model.adapters):
        inside = f"{where}.adapters[{a}]"
        for p, pool in enumerate(adapter.pools):
            if pool not in able:
                yield f"{inside}.pools[{p}]", f"the pool {echo(pool)} cannot run it"
        if not able:
            yield (
                inside,
                "no pool of the model can run it: openai needs upstream.lora, simulated replicas that are started here "
                "simulated.max_adapters; triton and trtllm_grpc cannot",
            )


def _fallback_problems(config: Config, model: Model, where: str) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for f, name in enumerate(model.fallbacks.models if model.fallbacks is not None else ()):
        inside = f"{where}.fallbacks.models[{f}]"
        if name == model.name:
            yield inside, "a model cannot fall back to itself"
            continue
        if name not in config.model_names:
            yield inside, f"there is no model {echo(name)}"
        yield from _repeated(seen, name, inside)


def _repeated(seen: dict[str, str], value: str, where: str) -> Iterator[tuple[str, str]]:
    first = seen.setdefault(value, where)
    if first != where:
        yield where, f"{echo(value)} is already taken by {first}"


def _repeated_upstream(
    seen: dict[tuple[str, str], str], pool: Pool, address: str, where: str
) -> Iterator[tuple[str, str]]:
    """Yield a problem where an address is used again for the same account."""
    for account in sorted((pool.upstream or UpstreamSettings()).accounts):
        first = seen.setdefault((address, account), where)
        if first != where:
            hint = "" if _same_pool(first, where) else "; pools with one URL need different keys: upstream.api_key"
            yield where, f"{echo(address)} is already taken by {first}{hint}"
            return


def _same_pool(one: str, other: str) -> bool:
    return one.rpartition(".")[0] == other.rpartition(".")[0]
