"""From the configuration's pools to what the fleets connect to."""

from gateway.config.models.engine_checks import SESSIONS
from gateway.config.models.settings import Pool
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
    """Every replica of one configured model that the file knows, those of local pools included."""
    pools = config.models[model_index].pools
    return [
        replica_spec(config, model_index, pool_index, str(number), address, key_of, tokenizer_hash, tokenizer=tokenizer)
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
) -> ReplicaSpec:
    """One replica of a pool, which is called POOL/NAME. `host` is the name that it was found by, if it was.

    `tokenizer` is for engines that take text.
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
        context=model.context,
        version=pool.version,
        tokenizer_hash=tokenizer_hash if pool.engine in SESSIONS else "",
        features=expected_of(pool),
        tls=_tls(pool, host if address.startswith(("grpcs:", "https:")) else ""),
        settings=_settings(pool, address, key_of, tokenizer),
        host=host,
    )


def _settings(pool: Pool, address: str, key_of: KeyOf, tokenizer: Tokenizer | None) -> object:
    """What the pool's transport takes as `ReplicaSpec.settings`."""
    if pool.engine == "openai":
        upstream = pool.upstream or UpstreamSettings()
        return KeyedUpstream(upstream, key_of(upstream.api_key))
    if pool.triton is not None:
        return triton_settings(pool.triton, address, tokenizer)
    return None


def _tls(pool: Pool, host: str) -> TlsFiles | None:
    tls = pool.tls
    if tls is None:
        return TlsFiles(server_name=host) if host else None
    return TlsFiles(tls.path("ca"), tls.path("certificate"), tls.path("key"), tls.server_name or host)
