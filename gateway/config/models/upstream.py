"""Settings of upstreams with OpenAI's HTTP API, and their checks."""

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal, get_args

from msgspec import Meta

from gateway.config.errors import echo
from gateway.config.secrets import ApiKeySource
from protos.features import Feature
from routing.transports.http.origin import is_header_value
from routing.transports.http.proxied_origin import NO_PROXY
from routing.transports.http.proxy import proxy_of
from routing.transports.openai.settings import API_FEATURES, OpenAISettings

#: Features that an upstream may be declared to lack; the names are those of protos/features.py.
FeatureName = Literal[
    "token_ids",
    "logprobs",
    "prompt_logprobs",
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
#: Endpoints that an upstream may be declared to have, named as in protos/features.py.
EndpointName = Literal["embeddings", "rerank", "score", "tokenize"]
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
#: Headers that the gateway writes, or that control the connection.
_OWN_HEADERS: Final = (
    *("accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "expect", "host"),
    *("keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"),
)
#: Members of a request body that the gateway or the client writes.
_MEMBERS: Final = (
    *("frequency_penalty", "input", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "messages"),
    *("model", "n", "presence_penalty", "prompt", "response_format", "seed", "stop", "stream", "stream_options"),
    *("temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user"),
)
_PATH: Final = re.compile(r"[!-~]{1,512}")


class UpstreamSettings(OpenAISettings, frozen=True, kw_only=True):
    """How upstreams with OpenAI's HTTP API are asked."""

    api_key: Annotated[
        ApiKeySource | Annotated[tuple[ApiKeySource, ...], Meta(min_length=1, max_length=64)] | None,
        Meta(
            description="Key that the gateway shows to the provider; unset: none. With a list of keys each address is "
            "a replica for each key, with its own limits and health: the first key's come first."
        ),
    ] = None
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

    @property
    def api_keys(self) -> tuple[ApiKeySource, ...]:
        """The sources of its keys; empty if there is none."""
        if self.api_key is None:
            return ()
        return self.api_key if isinstance(self.api_key, tuple) else (self.api_key,)

    @property
    def accounts(self) -> frozenset[str]:
        """Who the gateway is there: two pools with one URL must not have an account in common."""
        headers = sorted(self.sent_headers.items())
        return frozenset(f"{source} {headers} {self.model}" for source in self.api_keys or (None,))

    @property
    def features(self) -> Feature:
        """The features that the upstream is declared to have."""
        features = API_FEATURES | Feature.LORA if self.lora else API_FEATURES
        for name in self.lacks:
            features &= ~Feature[name.upper()]
        for endpoint in get_args(EndpointName):
            named = Feature[endpoint.upper()]
            features = features | named if endpoint in self.endpoints else features & ~named
        return features


def upstream_problems(upstream: UpstreamSettings | None, engine: str, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule."""
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
    if upstream.proxy not in (None, NO_PROXY):
        try:
            proxy_of(upstream.proxy)
        except ValueError as error:
            yield f"{where}.upstream.proxy", f"{error}, or none"
    if len(set(upstream.api_keys)) < len(upstream.api_keys):
        yield f"{where}.upstream.api_key", "names the same key twice"
    if upstream.salt_as in _MEMBERS:
        yield f"{where}.upstream.salt_as", f"{echo(upstream.salt_as)} means something else in a request"
    if upstream.metrics_of == "none" and upstream.metrics != UpstreamSettings().metrics:
        yield f"{where}.upstream.metrics", "is not read where metrics_of is none"
    for field in ("health", "metrics"):
        if not _PATH.fullmatch(getattr(upstream, field)) or getattr(upstream, field).startswith("http"):
            yield f"{where}.upstream.{field}", "expected a path, as /health or models"
