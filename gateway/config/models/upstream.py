"""What the configuration says of upstreams with OpenAI's HTTP API, and its rules."""

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.errors import echo
from gateway.config.secrets import ApiKeySource
from gateway.config.tenants import END
from protos.features import Feature
from routing.transports.http.origin import is_header_value
from routing.transports.openai.settings import API_FEATURES

#: What an upstream may be said to lack; the names are those of protos/features.py.
FeatureName = Literal[
    "token_ids",
    "logprobs",
    "several",
    "logit_bias",
    "guided",
    "top_k",
    "min_p",
    "repetition_penalty",
    "min_tokens",
    "ignore_eos",
    "stop_token_ids",
    "whole_api",
    "seed",
    "penalties",
]
#: Endpoints that it may be said to have, named in the same way.
EndpointName = Literal["embeddings", "rerank", "score", "tokenize"]
_Seconds = Annotated[float, Meta(ge=0.25, le=86_400)]
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
#: Those that the gateway writes itself, or that mean something for the connection.
_OWN_HEADERS: Final = (
    *("accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "expect", "host"),
    *("keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"),
)
#: Members of a body that the gateway or the client writes.
_MEMBERS: Final = (
    *("frequency_penalty", "input", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "messages"),
    *("model", "n", "presence_penalty", "prompt", "response_format", "seed", "stop", "stream", "stream_options"),
    *("temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user"),
)
_PATH: Final = re.compile(r"[!-~]{1,512}")


class UpstreamSettings(Record, frozen=True, kw_only=True):
    """How upstreams with OpenAI's HTTP API are asked."""

    api_key: Annotated[
        ApiKeySource | None, Meta(description="Key that the gateway shows to the provider; unset: none.")
    ] = None
    model: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)] | None,
        Meta(description="Name of the model there; unset: as here. Clients see the name that they asked for."),
    ] = None
    headers: Annotated[
        dict[str, str],
        Meta(max_length=32, description="Headers that go with every request, such as an organization's; no secrets."),
    ] = msgspec.field(default_factory=dict)
    lacks: Annotated[
        tuple[FeatureName, ...],
        Meta(max_length=64, description="What it cannot do. Requests that need it go to other pools, or are refused."),
    ] = ()
    endpoints: Annotated[
        tuple[EndpointName, ...],
        Meta(
            max_length=8,
            description="What it has beside chat and text completions. `tokenize` is looked for at the root of the "
            "host, as vLLM and SGLang have it, with `detokenize`; the others follow the base URL.",
        ),
    ] = ("embeddings",)
    lora: Annotated[
        bool, Meta(description="It serves the model's LoRA adapters, each as a model of the adapter's name.")
    ] = False
    counts_usage: Annotated[
        bool,
        Meta(
            description="It understands `stream_options`, so that each stream tells what it used. Otherwise that is "
            "guessed from the number of events."
        ),
    ] = True
    limit_as: Annotated[
        Literal["max_tokens", "max_completion_tokens"],
        Meta(
            description="What it calls the bound of a chat's answer, where a tenant's limits make the gateway send one "
            "that the client left out. Hosted reasoning models know `max_completion_tokens` alone."
        ),
    ] = "max_tokens"
    salt_as: Annotated[
        Annotated[str, Meta(pattern=rf"^[A-Za-z_][A-Za-z0-9_]{{0,63}}{END}")] | None,
        Meta(
            description="What it calls the salt of its prefix cache, as vLLM does `cache_salt`: a hash of the tenant "
            "(or of its `cache_group`) goes with each request, so that no tenant finds another one's prefixes. Unset: "
            "none is sent, and tenants share what it caches."
        ),
    ] = None
    max_in_flight: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            description="Requests that one replica takes at once: of all who use it where its metrics are read, "
            "else of each worker. More wait in the gateway's queue. Unset: any number."
        ),
    ] = None
    connect_seconds: Annotated[_Seconds, Meta(description="Longest wait for a connection, TLS included.")] = 5.0
    first_byte_seconds: Annotated[
        _Seconds, Meta(description="Longest wait for an answer's first byte; of one that is not streamed, all of it.")
    ] = 600.0
    between_bytes_seconds: Annotated[_Seconds, Meta(description="Longest silence within an answer.")] = 120.0
    health: Annotated[
        str,
        Meta(
            description="What is asked for to see whether it is there. With a slash in front it is a path of the host, "
            "as `/health` of vLLM; else it follows the base URL."
        ),
    ] = "models"
    health_seconds: Annotated[
        _Seconds, Meta(description="How often each worker asks for it, unless requests have been answered meanwhile.")
    ] = 5.0
    metrics: Annotated[
        str,
        Meta(description="Path of its metrics, as `health` is written; of `trtllm-serve`, `/prometheus/metrics`."),
    ] = "/metrics"
    metrics_of: Annotated[
        Literal["auto", "vllm", "sglang", "trtllm", "none"],
        Meta(
            description="Whose metrics those are, from which its load and KV cache are read every second. `auto`: of "
            "whichever is found there, if any. `none`: each worker knows only of the requests that it sent itself."
        ),
    ] = "auto"

    @property
    def features(self) -> Feature:
        """What it is trusted with."""
        features = API_FEATURES | Feature.LORA if self.lora else API_FEATURES
        for name in self.lacks:
            features &= ~Feature[name.upper()]
        for endpoint in get_args(EndpointName):
            named = Feature[endpoint.upper()]
            features = features | named if endpoint in self.endpoints else features & ~named
        return features


def upstream_problems(upstream: UpstreamSettings | None, engine: str, where: str) -> Iterator[tuple[str, str]]:
    """Every violated rule, as (path, problem)."""
    if upstream is None:
        return
    if engine != "openai":
        yield f"{where}.upstream", f"only openai replicas have it, not {engine}"
    seen: set[str] = set()
    for name, value in upstream.headers.items():
        if name.lower() in seen:
            yield f"{where}.upstream.headers.{name}", "is given twice, for case makes no difference"
        seen.add(name.lower())
        if not _HEADER.fullmatch(name):
            yield f"{where}.upstream.headers", f"{echo(name)} is no name of a header"
        elif name.lower() in _OWN_HEADERS:
            yield f"{where}.upstream.headers.{name}", "is written by the gateway itself"
        elif not is_header_value(value):
            yield f"{where}.upstream.headers.{name}", "has characters that cannot stand in a header"
    if upstream.salt_as in _MEMBERS:
        yield f"{where}.upstream.salt_as", f"{echo(upstream.salt_as)} means something else in a request"
    if upstream.metrics_of == "none" and upstream.metrics != UpstreamSettings().metrics:
        yield f"{where}.upstream.metrics", "is not read where metrics_of is none"
    for field in ("health", "metrics"):
        if not _PATH.fullmatch(getattr(upstream, field)) or getattr(upstream, field).startswith("http"):
            yield f"{where}.upstream.{field}", "expected a path, as /health or models"
