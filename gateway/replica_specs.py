"""From the configuration's pools to what the fleets connect to."""

from gateway.config import Config, Pool
from gateway.local_replicas import replica_addresses
from protos.features import Feature
from routing.links.spec import ReplicaSpec
from routing.links.tls import TlsFiles


def replica_specs(config: Config, model_index: int) -> list[ReplicaSpec]:
    """Every replica of one configured model, those of local pools included."""
    pools = config.models[model_index].pools
    return [
        replica_spec(config, model_index, pool_index, str(number), address)
        for pool_index in range(len(pools))
        for number, address in enumerate(replica_addresses(config, model_index, pool_index))
    ]


def replica_spec(config: Config, model_index: int, pool_index: int, name: str, address: str) -> ReplicaSpec:
    """One replica of a pool, which is called POOL/NAME."""
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
        features=Feature.TOKENS,
        tls=_tls(pool),
    )


def _tls(pool: Pool) -> TlsFiles | None:
    tls = pool.tls
    if tls is None:
        return None
    return TlsFiles(tls.path("ca"), tls.path("certificate"), tls.path("key"), tls.server_name or "")
