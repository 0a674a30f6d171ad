"""Conversion of the configuration's pools to the fleets' replica specs."""

from gateway.config.models.addresses import dns_name
from gateway.config.models.engine_checks import SESSIONS
from gateway.config.models.settings import Model, Pool
from gateway.config.models.upstream import UpstreamSettings
from gateway.config.settings import Config
from gateway.fleets.local_replicas import replica_addresses
from gateway.fleets.pool_abilities import expected_of
from gateway.fleets.triton_specs import triton_settings
from gateway.tenancy.providers.provider_keys import KeyOf
from gateway.text.tokens.tokenizer import Tokenizer
from routing.transports.openai.settings import KeyedUpstream
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.replica_tls import TlsFiles


def replica_specs(
    config: Config, model_index: int, key_of: KeyOf, tokenizer_hash: str = "", tokenizer: Tokenizer | None = None
) -> list[ReplicaSpec]:
    """The specs of all configured replicas of one model, those of local pools included."""
    pools = config.models[model_index].pools
    return [
        replica_spec(
            config,
            model_index,
            pool_index,
            str(number),
            address,
            key_of,
            tokenizer_hash,
            tokenizer=tokenizer,
            number=number,
        )
        for pool_index in range(len(pools))
        for number, address in enumerate(replica_addresses(config, model_index, pool_index))
    ]


def replica_spec(
    config: Config,
    model_index: int,
    pool_index: int,
    name: str,
    address: str,
    key_of: KeyOf,
    tokenizer_hash: str = "",
    host: str = "",
    tokenizer: Tokenizer | None = None,
    number: int = 0,
) -> ReplicaSpec:
    """The spec of one replica of a pool, named POOL/NAME. `host` is the name that discovery found it by, or empty.

    `tokenizer` is for engines that take text; `number` is that of a listed replica.
    """
    model = config.models[model_index]
    pool = model.pools[pool_index]
    return ReplicaSpec(
        id=f"{pool.name}/{name}",
        address=address,
        pool=pool.name,
        model=model.name,
        engine=pool.engine,
        shape=pool.shape.value,
        role=pool.role,
        channels=pool.channels,
        streams_per_channel=pool.streams_per_channel,
        context=0 if _gives_way(model, pool) else model.context,
        version=pool.version,
        tokenizer_hash=tokenizer_hash if pool.engine in SESSIONS else "",
        tokenizer_hashes=_pinned_hashes(model) if model.versions and pool.engine in SESSIONS else (),
        features=expected_of(pool),
        tls=_tls(pool, host if address.startswith(("grpcs:", "https:")) else ""),
        settings=_settings(pool, address, key_of, tokenizer, number),
        host=host,
    )


def discovered_host(pool: Pool) -> str:
    """Return the name whose certificates a pool's discovered replicas have; empty where it is not one."""
    names = {name.name for address in pool.addresses if (name := dns_name(address)) is not None}
    return names.pop() if len(names) == 1 else ""


def _gives_way(model: Model, pool: Pool) -> bool:
    """Whether requests that the pool's replicas are too narrow for go to wide ones, which may take their places."""
    relaunch = model.reshape.relaunch if model.reshape is not None else None
    return relaunch is not None and relaunch.narrow == pool.name


def _pinned_hashes(model: Model) -> tuple[tuple[str, str], ...]:
    pins = model.versions.items()
    return tuple((version, pin.tokenizer_hash) for version, pin in pins if pin.tokenizer_hash is not None)


def _settings(pool: Pool, address: str, key_of: KeyOf, tokenizer: Tokenizer | None, number: int) -> object:
    """The transport's settings for `ReplicaSpec.settings`."""
    if pool.engine == "openai":
        upstream = pool.upstream or UpstreamSettings()
        keys = upstream.api_keys
        # Discovered replicas have one key.
        key = pool.replica_keys[number][1] if len(keys) > 1 else next(iter(keys), None)
        return KeyedUpstream(upstream, key_of(key))
    if pool.triton is not None:
        return triton_settings(pool.triton, address, tokenizer)
    return None


def _tls(pool: Pool, host: str) -> TlsFiles | None:
    tls = pool.tls
    if tls is None:
        return TlsFiles(server_name=host) if host else None
    return TlsFiles(tls.path("ca"), tls.path("certificate"), tls.path("key"), tls.server_name or host)
