"""The configuration file: its form, its defaults and the checks that span fields. Frozen once it is loaded."""

import os
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from gateway.config_errors import ConfigError, convert, echo
from protos.types import Role, Shape

__all__ = [
    "Auth",
    "Config",
    "ConfigError",
    "Listen",
    "Model",
    "Pool",
    "PoolShape",
    "Routing",
    "SimulatedEngine",
    "Store",
    "load_config",
    "resolve",
    "schema",
    "usable_cores",
]

# Python's $ also matches before a final line feed; the lookahead keeps that out and means nothing elsewhere.
_END: Final = r"$(?!\n)"
_ADDRESS = re.compile(r"grpc://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})|unix:/[^\s\x00]+")
_STORE_SCHEMES: Final = ("redis://", "rediss://", "unix://")
_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all parts of the file share: nothing changes after loading and nothing unknown is accepted."""


class Listen(_Section, frozen=True, kw_only=True):
    """Where the gateway listens, and the bounds of what it accepts."""

    host: Annotated[
        str,
        Meta(min_length=1, max_length=255, description="Address to listen on; `0.0.0.0` is every IPv4 interface."),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="TCP port.")] = 8080
    workers: Annotated[
        Literal["auto"] | Annotated[int, Meta(ge=1, le=256)],
        Meta(description="Worker processes; `auto` is one for each CPU core that the process may use."),
    ] = "auto"
    max_body_bytes: Annotated[
        int,
        Meta(ge=1024, le=1 << 30, description="Longest request body, in bytes; a longer one is answered with 413."),
    ] = 8 << 20
    max_in_flight: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Requests that one worker holds at once; one more is answered with 503."),
    ] = 4096
    drain_seconds: Annotated[
        float,
        Meta(ge=0, le=3600, description="Time that running requests get to finish after SIGTERM, in seconds."),
    ] = 30.0
    header_timeout_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=60,
            description="Time in which a client must have sent its request's headers, in seconds. An idle keep-alive "
            "connection is closed after it too, so it should be longer than what a load balancer keeps idle.",
        ),
    ] = 60
    request_timeout_seconds: Annotated[
        float,
        Meta(gt=0, le=86_400, description="Longest life of one request, its whole stream included, in seconds."),
    ] = 600.0

    def worker_count(self, cores: int) -> int:
        """Workers to start on a machine that grants this process `cores` CPU cores."""
        return max(1, cores) if self.workers == "auto" else self.workers


class Store(_Section, frozen=True, kw_only=True):
    """The Redis-protocol store that all workers share."""

    url: Annotated[
        str,
        Meta(
            description="`embedded` starts a Valkey of its own on a unix socket and keeps its data under `state`; "
            "otherwise `redis://`, `rediss://` (TLS) or `unix://` and an absolute path."
        ),
    ] = "embedded"

    @property
    def embedded(self) -> bool:
        """Whether `penstock serve` starts the store itself."""
        return self.url == "embedded"

    @property
    def shown_url(self) -> str:
        """The address without user name and password, for people and logs."""
        return _CREDENTIALS.sub("***@", self.url)


class Auth(_Section, frozen=True, kw_only=True):
    """How API keys are checked."""

    key_cache_size: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Keys that one worker remembers, to answer without asking the store."),
    ] = 10_000


class Routing(_Section, frozen=True, kw_only=True):
    """How a model's requests are spread over its replicas."""

    policy: Annotated[
        Literal["least_load", "round_robin"],
        Meta(
            description="`least_load` sends a request to the replica with the least work for its size; "
            "`round_robin` takes them in turn."
        ),
    ] = "least_load"


class PoolShape(_Section, frozen=True, kw_only=True):
    """How each replica of a pool is spread over GPUs."""

    tp: Annotated[int, Meta(ge=1, le=1024, description="Tensor parallel degree.")] = 1
    ep: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            description="Expert parallel degree. It splits the tensor parallel group, so it must divide `tp` "
            "and adds no GPUs.",
        ),
    ] = 1
    pp: Annotated[int, Meta(ge=1, le=1024, description="Pipeline parallel degree.")] = 1

    @property
    def value(self) -> Shape:
        """The shape as the rest of the code knows it."""
        return Shape(tp=self.tp, ep=self.ep, pp=self.pp)


class SimulatedEngine(_Section, frozen=True, kw_only=True):
    """The simulated engine's pace and output, for replicas that this machine starts."""

    profile: Annotated[
        Literal["mixtral-8x7b", "llama-3.1-70b", "llama-3.1-8b"] | None,
        Meta(
            description="Published model whose speed and KV cache are imitated; unset: the one of the model's name, or "
            "`mixtral-8x7b`."
        ),
    ] = None
    speed: Annotated[
        float,
        Meta(gt=0, le=100_000, description="How many times faster than the modelled hardware the engine runs."),
    ] = 1.0
    instant: Annotated[
        bool,
        Meta(description="Steps take no time at all, to measure the gateway alone."),
    ] = False
    pace_ms: Annotated[
        Annotated[float, Meta(gt=0, le=60_000)] | None,
        Meta(description="Every step takes this long, whatever it holds, in milliseconds; unset: as modelled."),
    ] = None
    output_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        Meta(
            description="Every answer has exactly this many tokens, unless the request's limit is lower; unset: varied."
        ),
    ] = None
    scheduler: Annotated[
        Literal["guaranteed_no_evict", "max_utilization"],
        Meta(
            description="TensorRT-LLM's capacity policy: `guaranteed_no_evict` starts a request only when its longest "
            "answer fits in the KV cache; `max_utilization` fills the cache and may pause requests."
        ),
    ] = "guaranteed_no_evict"


class Pool(_Section, frozen=True, kw_only=True):
    """Replicas of one shape."""

    name: Annotated[
        str,
        Meta(
            pattern=rf"^[A-Za-z0-9][A-Za-z0-9_-]{{0,47}}{_END}",
            description="Name of the pool in logs and metrics, unique in its model: 1 to 48 letters, digits, `_`, `-`.",
        ),
    ]
    shape: Annotated[PoolShape, Meta(description="GPUs of each replica.")] = PoolShape()
    role: Annotated[
        Role,
        Meta(description="Phases that the replicas run. Only `both` is routed today; the others are refused."),
    ] = Role.BOTH
    engine: Annotated[
        Literal["simulated"],
        Meta(description="Engine behind the replicas' sessions. A replica that reports another one gets no requests."),
    ]
    replicas: Annotated[
        Annotated[int, Meta(ge=1, le=256)] | Annotated[tuple[str, ...], Meta(min_length=1, max_length=1024)],
        Meta(
            description="A number: `penstock serve` starts that many on this machine (`simulated` only). A list of "
            "addresses, `grpc://HOST:PORT` or `unix:/PATH`: replicas that `penstock replica` serves elsewhere."
        ),
    ]
    simulated: Annotated[
        SimulatedEngine | None,
        Meta(description="Settings of simulated replicas; only where `replicas` is a number."),
    ] = None
    channels: Annotated[
        int,
        Meta(ge=1, le=16, description="Most gRPC channels that one worker opens to one replica."),
    ] = 4
    streams_per_channel: Annotated[
        int,
        Meta(ge=1, le=65_536, description="Sequences on one channel before a worker opens the next one."),
    ] = 512

    @property
    def local_replicas(self) -> int:
        """How many replicas `penstock serve` starts for this pool; 0 for a pool that runs elsewhere."""
        return self.replicas if isinstance(self.replicas, int) else 0

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the replicas of a pool that runs elsewhere are; empty for a local one."""
        return () if isinstance(self.replicas, int) else self.replicas

    @property
    def replica_count(self) -> int:
        """Replicas in the pool, wherever they run."""
        return self.local_replicas or len(self.addresses)


class Model(_Section, frozen=True, kw_only=True):
    """One model that clients can ask for."""

    name: Annotated[
        str,
        Meta(
            pattern=rf"^[A-Za-z0-9][A-Za-z0-9._:/@+-]{{0,127}}{_END}",
            description="Name that clients send as `model`: 1 to 128 letters, digits and `. _ : / @ + -`.",
        ),
    ]
    tokenizer: Annotated[
        str,
        Meta(
            min_length=1,
            description="A bundled tokenizer's name (`mistral-tekken`), or the path of a Hugging Face folder or tekken "
            "file. A path has a `/` in it (`./models/mixtral`) and is relative to this file's folder.",
        ),
    ]
    context: Annotated[
        int,
        Meta(ge=2, le=100_000_000, description="Context window in tokens: prompt and answer together."),
    ]
    routing: Annotated[Routing, Meta(description="How requests are spread over the pools.")] = Routing()
    pools: Annotated[
        tuple[Pool, ...],
        Meta(min_length=1, description="Replica pools that serve the model; their shapes may differ."),
    ]

    @property
    def tokenizer_path(self) -> Path | None:
        """Where the tokenizer's files are, or None for a bundled one."""
        return Path(self.tokenizer) if "/" in self.tokenizer else None


class Config(_Section, frozen=True, kw_only=True):
    """The whole file."""

    listen: Annotated[Listen, Meta(description="Where the gateway listens, and what it accepts.")] = Listen()
    state: Annotated[
        str,
        Meta(
            min_length=1,
            description="Directory of the embedded store's data and of local sockets, relative to this file's folder.",
        ),
    ] = ".penstock"
    store: Annotated[Store, Meta(description="The store that all workers share.")] = Store()
    auth: Annotated[Auth, Meta(description="How API keys are checked.")] = Auth()
    models: Annotated[tuple[Model, ...], Meta(min_length=1, description="Models that the gateway serves.")]

    @property
    def state_dir(self) -> Path:
        """The directory for data and sockets; absolute in a loaded configuration."""
        return Path(self.state)


def load_config(path: Path) -> Config:
    """Read and validate a configuration file whole; `state` and tokenizer paths in the result are absolute.

    Raises:
        ConfigError: One line that names the file, the path in it and the problem.
    """
    from gateway.config_yaml import read_yaml  # workers get the configuration ready-made and need no YAML

    source = str(path)
    value = read_yaml(path)
    if not isinstance(value, dict):
        raise ConfigError(source, "", "the file is empty" if value is None else "expected a mapping with models in it")
    config = convert(value, Config, source)
    for where, problem in _problems(config):
        raise ConfigError(source, where, problem)
    folder = path.resolve().parent
    models = tuple(
        msgspec.structs.replace(model, tokenizer=str((folder / relative).resolve()))
        if (relative := model.tokenizer_path)
        else model
        for model in config.models
    )
    return msgspec.structs.replace(config, state=str((folder / config.state).resolve()), models=models)


def resolve(config: Config, source: str, bundled: Collection[str]) -> None:
    """Check what the file refers to on this machine: its tokenizers; `bundled` are the names that need no files.

    Raises:
        ConfigError: A tokenizer is neither a bundled name nor a readable file or folder.
    """
    for index, model in enumerate(config.models):
        where = f"models[{index}].tokenizer"
        path = model.tokenizer_path
        if path is None and model.tokenizer not in bundled:
            known = ", ".join(sorted(bundled))
            raise ConfigError(
                source, where, f"{echo(model.tokenizer)} is not bundled ({known} is); a path must have a / in it"
            )
        if path is not None and not path.exists():
            raise ConfigError(source, where, f"{path} does not exist")


def usable_cores() -> int:
    """CPU cores that this process may use; on Linux its affinity counts, so `taskset` and cpusets are honoured."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the file; checks that span fields are in `load_config` alone."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Penstock configuration",
        **msgspec.json.schema(Config),
    }


def _problems(config: Config) -> Iterator[tuple[str, str]]:
    """Every violated rule that spans fields or that a type cannot say, as (path, problem)."""
    yield from _store_problems(config.store)
    names: dict[str, str] = {}
    addresses: dict[str, str] = {}
    for m, model in enumerate(config.models):
        where = f"models[{m}]"
        yield from _repeated(names, model.name, f"{where}.name")
        pool_names: dict[str, str] = {}
        for p, pool in enumerate(model.pools):
            inside = f"{where}.pools[{p}]"
            yield from _repeated(pool_names, pool.name, f"{inside}.name")
            yield from _pool_problems(pool, inside)
            for a, address in enumerate(pool.addresses):
                yield from _repeated(addresses, address, f"{inside}.replicas[{a}]")


def _repeated(seen: dict[str, str], value: str, where: str) -> Iterator[tuple[str, str]]:
    first = seen.setdefault(value, where)
    if first != where:
        yield where, f"{echo(value)} is already taken by {first}"


def _store_problems(store: Store) -> Iterator[tuple[str, str]]:
    if store.embedded:
        return
    if store.url.startswith("redis+cluster://"):
        yield "store.url", "redis+cluster:// is not supported yet; use redis:// or rediss:// to a single primary"
    elif not store.url.startswith(_STORE_SCHEMES):
        # The value is not echoed: it may hold a password.
        yield "store.url", "expected embedded, or an address that starts with redis://, rediss:// or unix://"
    elif store.url.startswith("unix://") and not _CREDENTIALS.sub("", store.url).startswith("unix:///"):
        yield "store.url", "a unix:// address needs an absolute path, as in unix:///run/valkey.sock"
    else:
        try:
            _ = urlsplit(store.url).port
        except ValueError:
            yield "store.url", "the address cannot be read; a port is a number from 0 to 65535"


def _pool_problems(pool: Pool, where: str) -> Iterator[tuple[str, str]]:
    if pool.shape.tp % pool.shape.ep:
        yield f"{where}.shape.ep", f"must divide tp ({pool.shape.tp}), got {pool.shape.ep}"
    if pool.role is not Role.BOTH:
        yield f"{where}.role", f"prefill and decode pools are not routed yet; use both, got {echo(pool.role.value)}"
    for a, address in enumerate(pool.addresses):
        match = _ADDRESS.fullmatch(address)
        if match is None or (match["port"] and not 1 <= int(match["port"]) <= 65535):
            yield f"{where}.replicas[{a}]", f"expected grpc://HOST:PORT or unix:/PATH, got {echo(address)}"
    if pool.simulated is not None:
        if not pool.local_replicas:
            yield (
                f"{where}.simulated",
                "only for replicas that are started here; elsewhere penstock replica has them",
            )
        chosen = [
            name
            for name, default in (("speed", 1.0), ("instant", False), ("pace_ms", None))
            if getattr(pool.simulated, name) != default
        ]
        if len(chosen) > 1:
            yield f"{where}.simulated", f"{' and '.join(chosen)} exclude each other: each sets how long a step takes"
