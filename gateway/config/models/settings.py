"""A model of the configuration: names, tokenizer, price and replica pools."""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.models.adapters import LoraAdapter
from gateway.config.models.addresses import is_discovered
from gateway.config.models.drift import DriftSettings
from gateway.config.models.embeddings import Embeddings
from gateway.config.models.engines import EngineName, PoolShape, PoolTls, SimulatedEngine
from gateway.config.models.fallbacks import Fallbacks
from gateway.config.models.kubernetes import InferencePoolPods, KubernetesReplicas, KubernetesService, Workload
from gateway.config.models.output import Output
from gateway.config.models.price import Price
from gateway.config.models.reshape.settings import Reshape
from gateway.config.models.routing import Routing
from gateway.config.models.scaling import LauncherName, PoolScaling, Scaling
from gateway.config.models.triton import TritonModel
from gateway.config.models.upstream import UpstreamSettings
from gateway.config.models.versions import VersionPins
from gateway.config.secrets import ApiKeySource
from gateway.config.tenants import END, NAME
from protos.types import Role

#: The form of a model's name and of its aliases.
MODEL_NAME: Final = rf"^[A-Za-z0-9][A-Za-z0-9._:/@+-]{{0,127}}{END}"


class Pool(Record, frozen=True, kw_only=True):
    """Replicas of one shape."""

    name: Annotated[
        str,
        Meta(
            pattern=rf"^[A-Za-z0-9][A-Za-z0-9_-]{{0,47}}{END}",
            description="Name of the pool in logs and metrics, unique in its model: 1 to 48 letters, digits, `_`, `-`.",
        ),
    ]
    shape: Annotated[PoolShape, Meta(description="GPUs of each replica.")] = PoolShape()
    role: Annotated[
        Role,
        Meta(
            description="Phases that the replicas run: whole requests, or only one phase, as a pair with another pool. "
            "A `prefill` pool needs a `decode` pool of the same engine, and the other way round."
        ),
    ] = Role.BOTH
    engine: Annotated[
        EngineName,
        Meta(
            description="What the replicas are. `simulated` and `tensorrt_llm`: `penstock replica` with that engine. "
            "`trtllm_grpc`: a stock `trtllm-serve --grpc`. `triton`: Triton with a TensorRT-LLM model. `openai`: any "
            "server with OpenAI's HTTP API. A replica that reports another engine gets no requests."
        ),
    ]
    replicas: Annotated[
        Annotated[int, Meta(ge=1, le=256)]
        | Literal["registered"]
        | KubernetesReplicas
        | Annotated[tuple[str, ...], Meta(min_length=1, max_length=1024)],
        Meta(
            description="A number: `penstock serve` starts that many on this machine (`simulated` only). A list of "
            "addresses: `grpc://HOST:PORT`, `grpcs://HOST:PORT` (TLS) or `unix:/PATH`; of `openai`, the base URL that "
            "its API's paths follow, as `https://HOST/v1`. An address may be a name whose DNS records are replicas: "
            "`grpc+dns://NAME:PORT` (A and AAAA) or `grpc+srv://_SERVICE._tcp.NAME` (SRV), and the same with `grpcs`, "
            "`http` and `https`. `registered`: those that `penstock replica --register` announces in the store. "
            "`{kubernetes: {service: NAME}}`: the endpoints of a service of Kubernetes; "
            "`{inference_pool: {name: NAME}}`: the pods of an InferencePool."
        ),
    ]
    launcher: Annotated[
        LauncherName | None,
        Meta(
            description="What starts and stops the pool's replicas, which then register themselves: `local` or "
            "`command`, set up in `launchers`, or `kubernetes`, which scales `workload`. It needs `scaling`, and "
            "`replicas: registered`; with `kubernetes` they may be a service's endpoints as well."
        ),
    ] = None
    workload: Annotated[
        Workload | None, Meta(description="What `launcher: kubernetes` scales; required there, and only there.")
    ] = None
    scaling: Annotated[
        PoolScaling | None, Meta(description="Bounds and prices of a pool with a `launcher`; unset: it does not scale.")
    ] = None
    group_gpus: Annotated[
        Annotated[int, Meta(ge=2, le=64)] | None,
        Meta(
            description="GPUs of each host group that replicas form which `launcher: local` starts, a power of two: "
            "each replica has one GPU, and its place in a group by `launchers.local.gpus`. The first GPUs of that list "
            "are kept for the pool, as many as `scaling.max`. Unset: they form none."
        ),
    ] = None
    replica_arguments: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=4096)], ...],
        Meta(
            max_length=256,
            description="Further arguments of `penstock replica` for the replicas that `launcher: local` starts, as "
            "`[--checkpoint, /models/mixtral]`. Not those that follow from this file, as `--model` and `--tp`.",
        ),
    ] = ()
    tls: Annotated[
        PoolTls | None, Meta(description="Certificates for `grpcs://` and `https://` addresses; unset: the system's.")
    ] = None
    version: Annotated[
        str,
        Meta(
            max_length=128,
            description="Version of the model. A replica that reports another one gets no requests; empty: any. It is "
            "what clients see where the engine does not say its own.",
        ),
    ] = ""
    triton: Annotated[
        TritonModel | None, Meta(description="The model on Triton servers; `triton` only, and required there.")
    ] = None
    simulated: Annotated[
        SimulatedEngine | None,
        Meta(
            description="Settings of simulated replicas; only where `replicas` is a number, or `launcher` is `local`."
        ),
    ] = None
    upstream: Annotated[UpstreamSettings | None, Meta(description="How the servers are asked; only for `openai`.")] = (
        None
    )
    channels: Annotated[
        int,
        Meta(
            ge=1,
            le=16,
            description="Most gRPC channels that one worker opens to one `simulated` or `tensorrt_llm` replica.",
        ),
    ] = 4
    streams_per_channel: Annotated[
        int,
        Meta(ge=1, le=65_536, description="Sequences on one such channel before a worker opens the next one."),
    ] = 512

    @property
    def local_replicas(self) -> int:
        """Number of replicas that `penstock serve` starts for this pool; 0 if it runs elsewhere."""
        return self.replicas if isinstance(self.replicas, int) else 0

    @property
    def starts_here(self) -> bool:
        """Whether the pool's replicas are processes of this machine that the gateway starts: a number, or launched."""
        return bool(self.local_replicas) or self.launcher == "local"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The configured addresses; empty for a pool whose replicas are not listed."""
        return self.replicas if isinstance(self.replicas, tuple) else ()

    @property
    def listed_addresses(self) -> tuple[str, ...]:
        """The addresses of one replica each, without DNS names."""
        return tuple(address for address in self.addresses if not is_discovered(address))

    @property
    def is_registered(self) -> bool:
        """Whether the pool's replicas register themselves."""
        return self.replicas == "registered"

    @property
    def service(self) -> KubernetesService | None:
        """The service of Kubernetes whose endpoints are the pool's replicas; None for any other pool."""
        return self.replicas.kubernetes if isinstance(self.replicas, KubernetesReplicas) else None

    @property
    def inference_pool(self) -> InferencePoolPods | None:
        """The InferencePool whose pods are the pool's replicas; None for any other pool."""
        return self.replicas.inference_pool if isinstance(self.replicas, KubernetesReplicas) else None

    @property
    def is_discovered(self) -> bool:
        """Whether discovery finds some of the pool's replicas at run time."""
        found = self.is_registered or isinstance(self.replicas, KubernetesReplicas)
        return found or len(self.listed_addresses) < len(self.addresses)

    @property
    def found_at(self) -> str:
        """Where replicas are that nobody here starts, for a line of text."""
        if self.service is not None:
            return f"endpoints of {self.service.service}"
        if self.inference_pool is not None:
            return f"pods of {self.inference_pool.name}"
        return ", ".join(self.addresses) or "they register"

    @property
    def replica_keys(self) -> tuple[tuple[str, ApiKeySource | None], ...]:
        """Address and key of each replica that is listed: all addresses with the first key, then with the next one."""
        keys = self.upstream.api_keys if self.upstream is not None else ()
        return tuple((address, key) for key in keys or (None,) for address in self.listed_addresses)

    @property
    def replica_count(self) -> int:
        """Number of configured replicas, local or remote."""
        return self.local_replicas or len(self.replica_keys)


class Model(Record, frozen=True, kw_only=True):
    """One model that clients can ask for."""

    name: Annotated[
        str,
        Meta(
            pattern=MODEL_NAME,
            description="Name that clients send as `model`: 1 to 128 letters, digits and `. _ : / @ + -`.",
        ),
    ]
    aliases: Annotated[
        tuple[Annotated[str, Meta(pattern=MODEL_NAME)], ...],
        Meta(
            max_length=64,
            description="Other names that clients may send for it, as in `gpt-4o`. Answers, limits, scopes of keys and "
            "metrics have the model's own name.",
        ),
    ] = ()
    tokenizer: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="A bundled tokenizer's name (`mistral-tekken`), or the path of a Hugging Face folder or tekken "
            "file. A path has a `/` in it (`./models/mixtral`) and is relative to this file's folder. Unset, for "
            "models whose pools are all `openai`: until the upstream says its own count, a prompt's text counts as "
            "tokenizers cut it, and its media by the provider's rule, which `penstock check` names.",
        ),
    ] = None
    context: Annotated[
        int,
        Meta(ge=2, le=100_000_000, description="Context window in tokens: prompt and answer together."),
    ]
    over_context: Annotated[
        Literal["clamp", "refuse"],
        Meta(
            description="What becomes of a `max_tokens` beyond what the prompt leaves of the context. `clamp`: the "
            "rest of the context, which `x-penstock-adjusted` says. `refuse`: 400 `context_length_exceeded`."
        ),
    ] = "clamp"
    output: Annotated[Output, Meta(description="How the model writes thoughts and tool calls.")] = Output()
    routing: Annotated[Routing, Meta(description="How requests are spread over the pools.")] = Routing()
    scaling: Annotated[
        Scaling | None, Meta(description="How its pools with a `launcher` are sized; unset: by the defaults.")
    ] = None
    reshape: Annotated[
        Reshape | None,
        Meta(description="How replicas that share GPUs change their shapes; unset: they keep them."),
    ] = None
    fallbacks: Annotated[
        Fallbacks | None, Meta(description="Models that answer where this one cannot; unset: none.")
    ] = None
    safety: Annotated[
        Annotated[str, Meta(pattern=NAME)] | None,
        Meta(
            description="Name of a policy whose rules hold for this model, beside the tenant's; of two that name one "
            "filter the stricter action counts."
        ),
    ] = None
    price: Annotated[Price | None, Meta(description="What its tokens cost, for usage and budgets; unset: nothing.")] = (
        None
    )
    drift: Annotated[
        DriftSettings | None,
        Meta(description="Compare what clients send and the model answers with a reference; unset: not."),
    ] = None
    embeddings: Annotated[Embeddings, Meta(description="How its upstreams are asked for embeddings.")] = Embeddings()
    pools: Annotated[
        tuple[Pool, ...],
        Meta(min_length=1, description="Replica pools that serve the model; their shapes may differ."),
    ]

    adapters: Annotated[
        tuple[LoraAdapter, ...],
        Meta(
            max_length=4096,
            description="LoRA adapters, each of which clients ask for as `MODEL:NAME`. A key or tenant may use those "
            "whose full name one of its `models` matches: `MODEL:*` is all of them, and `MODEL` alone none.",
        ),
    ] = ()
    allow_unlisted: Annotated[
        bool, Meta(description="Serve adapters too that are not listed, if a replica knows them by name.")
    ] = False
    stable: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None,
        Meta(
            description="The version that serves while no rollout says otherwise; replicas of other versions are "
            "connected and get nothing. A rollout that has ended well changes it, until this changes here. Unset: the "
            "first pool's version, where pools name several; else all replicas serve, whatever their version."
        ),
    ] = None
    versions: Annotated[
        dict[Annotated[str, Meta(min_length=1, max_length=128)], VersionPins],
        Meta(description="What belongs to single versions, by their names; others have nothing of their own."),
    ] = msgspec.field(default_factory=dict)

    @property
    def scales(self) -> bool:
        """Whether a launcher starts and stops replicas of any of its pools."""
        return any(pool.launcher is not None for pool in self.pools)

    @property
    def pool_versions(self) -> tuple[str, ...]:
        """The versions that its pools name, each once, in their order."""
        return tuple(dict.fromkeys(pool.version for pool in self.pools if pool.version))

    @property
    def names_versions(self) -> bool:
        """Whether its requests go by version: one is stable, or its pools name several."""
        return self.stable is not None or len(self.pool_versions) > 1

    @property
    def stable_version(self) -> str:
        """The version that serves while no rollout says otherwise; empty where requests do not go by version."""
        return self.stable or (self.pools[0].version if self.names_versions else "")

    @property
    def tokenizer_path(self) -> Path | None:
        """The path of the tokenizer's files; None for a bundled tokenizer or for none."""
        return Path(self.tokenizer) if self.tokenizer is not None and "/" in self.tokenizer else None
