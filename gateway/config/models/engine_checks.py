"""Pool rules: which addresses, settings and roles each engine allows."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import msgspec

from gateway.config.errors import echo
from gateway.config.models.addresses import dns_name, is_discovered, is_grpc_address
from gateway.config.models.settings import Pool
from gateway.config.models.triton import triton_problems
from gateway.config.models.upstream import upstream_problems
from protos.types import Role
from routing.transports.http.origin import origin_of

#: Engines with the session protocol, whose replicas can have the role prefill or decode.
SESSIONS: Final = ("simulated", "tensorrt_llm")
_WEIGHT_SOURCES: Final = ("page_cache", "fork", "slow_fork")
_DEFAULTS: Final = {field.name: field.default for field in msgspec.structs.fields(Pool)}


def pool_problems(pool: Pool, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule of one pool."""
    if pool.shape.tp % pool.shape.ep:
        yield f"{where}.shape.ep", f"must divide tp ({pool.shape.tp}), got {pool.shape.ep}"
    if pool.local_replicas and pool.engine != "simulated":
        yield f"{where}.replicas", f"only simulated replicas are started here; of {pool.engine}, give addresses"
    if pool.is_registered and pool.engine not in SESSIONS:
        yield f"{where}.replicas", f"only {' and '.join(SESSIONS)} replicas register themselves; give addresses"
    for a, address in enumerate(pool.addresses):
        yield from _address_problems(pool, address, f"{where}.replicas[{a}]")
    if pool.role is not Role.BOTH and pool.engine not in SESSIONS:
        yield (
            f"{where}.role",
            f"must be both: {pool.engine} cannot hand a prefill over to another replica, only {' and '.join(SESSIONS)} "
            "can",
        )
    yield from upstream_problems(pool.upstream, pool.engine, where)
    if pool.upstream is not None and len(pool.upstream.api_keys) > 1 and pool.is_discovered:
        yield f"{where}.upstream.api_key", "several keys need addresses of one server each, not names to be looked up"
    yield from triton_problems(pool.engine, pool.triton, pool.addresses, where, many=pool.is_discovered)
    yield from _channel_problems(pool, where)
    yield from _simulated_problems(pool, where)
    yield from _tls_problems(pool, where)


def runs_adapters(pool: Pool) -> bool:
    """Whether the pool's replicas may run LoRA adapters."""
    if pool.starts_here:
        return pool.engine != "simulated" or (pool.simulated is not None and pool.simulated.max_adapters > 0)
    return pool.engine in SESSIONS or (pool.upstream is not None and pool.upstream.lora)


def _address_problems(pool: Pool, address: str, where: str) -> Iterator[tuple[str, str]]:
    if is_discovered(address):
        yield from _dns_problems(pool, address, where)
        return
    if pool.engine == "openai":
        if not _is_base_url(address):
            # The value may hold a password.
            yield where, "expected http://HOST or https://HOST, with a path if there is one, and nothing after it"
        elif address.rstrip("/").endswith("/completions"):
            yield where, "expected the base URL that the API's paths follow: leave out what comes after /v1"
        return
    if not is_grpc_address(address):
        yield where, f"expected grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH, got {echo(address)}"


def _dns_problems(pool: Pool, address: str, where: str) -> Iterator[tuple[str, str]]:
    scheme, path = ("http", "/v1") if pool.engine == "openai" else ("grpc", "")
    name = dns_name(address)
    if name is None or name.scheme.removesuffix("s") != scheme:
        forms = [
            f"{scheme}{s}+{kind}{path}" for s in ("", "s") for kind in ("dns://NAME:PORT", "srv://_SERVICE._tcp.NAME")
        ]
        yield where, f"expected {', '.join(forms[:-1])} or {forms[-1]}, got {echo(address)}"


def _is_base_url(address: str) -> bool:
    try:
        # In the form in which the name is looked up.
        origin_of(address).host.encode("idna")
        return urlsplit(address).port != 0 and address.isprintable()
    except ValueError:
        return False


def _channel_problems(pool: Pool, where: str) -> Iterator[tuple[str, str]]:
    if pool.engine in SESSIONS:
        return
    for name in ("channels", "streams_per_channel"):
        if getattr(pool, name) != _DEFAULTS[name]:
            yield f"{where}.{name}", f"only for {' and '.join(SESSIONS)}: of {pool.engine}, each request is a call"


def _simulated_problems(pool: Pool, where: str) -> Iterator[tuple[str, str]]:
    if pool.simulated is None:
        return
    if not pool.starts_here or pool.engine != "simulated":
        yield f"{where}.simulated", "only for replicas that are started here; elsewhere penstock replica has them"
    if pool.simulated.adapters and not pool.simulated.max_adapters:
        yield f"{where}.simulated.max_adapters", "must be at least 1 for replicas with adapters"
    if pool.simulated.start is not None and pool.local_replicas:
        yield f"{where}.simulated.start", "only with a launcher: the gateway begins once its own replicas are ready"
    prepared = pool.simulated.start or ()
    if "all" in prepared and len(prepared) > 1:
        yield f"{where}.simulated.start", "`all` stands alone"
    if len(sources := [name for name in prepared if name in _WEIGHT_SOURCES]) > 1:
        yield f"{where}.simulated.start", f"{' and '.join(sources)} exclude each other: weights come from one place"
    chosen = [
        name
        for name, default in (("speed", 1.0), ("instant", False), ("pace_ms", None))
        if getattr(pool.simulated, name) != default
    ]
    if len(chosen) > 1:
        yield f"{where}.simulated", f"{' and '.join(chosen)} exclude each other: each sets how long a step takes"


def _tls_problems(pool: Pool, where: str) -> Iterator[tuple[str, str]]:
    if pool.tls is None:
        return
    secure = ("grpcs:", "grpcs+", "https:", "https+")
    if (
        not pool.is_registered
        and pool.service is None
        and pool.inference_pool is None
        and not any(address.startswith(secure) for address in pool.addresses)
    ):
        yield f"{where}.tls", "no address of the pool has TLS: those start with grpcs:// or https://"
    if (pool.tls.certificate is None) != (pool.tls.key is None):
        missing = "certificate" if pool.tls.certificate is None else "key"
        yield f"{where}.tls.{missing}", "a certificate and its key go together"
