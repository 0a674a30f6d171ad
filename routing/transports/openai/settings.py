"""Settings of engine `openai`: `ReplicaSpec.settings` is a `KeyedUpstream`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from protos.features import Feature
from routing.transports.http.upstream_timeouts import Timeouts

#: The engine whose metrics an upstream serves; `auto`: detected at `/metrics`.
MetricsKind = Literal["auto", "vllm", "sglang", "trtllm", "triton", "none"]

#: Endpoints that some upstreams have and OpenAI's own API has not.
MORE_ENDPOINTS: Final = Feature.RERANK | Feature.SCORE | Feature.TOKENIZE
#: Features assumed of an upstream with the whole API. Its answers are bytes, so none can be migrated.
API_FEATURES: Final = ~(Feature.RESUMES | Feature.GUIDE_RESUMES | Feature.LORA | MORE_ENDPOINTS) & Feature(sum(Feature))
_Seconds = Annotated[float, Meta(ge=0.25, le=86_400)]


class OpenAISettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How upstreams with OpenAI's HTTP API are asked, as the configuration writes it."""

    model: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)] | None,
        Meta(description="Name of the model there; unset: as here. Clients see the name that they asked for."),
    ] = None
    headers: Annotated[
        dict[str, str],
        Meta(max_length=32, description="Headers that go with every request, such as an organization's; no secrets."),
    ] = msgspec.field(default_factory=dict)
    counts_usage: Annotated[
        bool,
        Meta(
            description="It understands `stream_options`, so that each stream tells what it used. Otherwise that is "
            "estimated from its events."
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
        Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$(?!\n)")] | None,
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
    proxy: Annotated[
        Annotated[str, Meta(min_length=1, max_length=2048)] | None,
        Meta(
            description="HTTP proxy on the way there, as `http://HOST:PORT`, with `USER:PASSWORD@` before the host if "
            "it asks for them; `none`: no proxy. Unset: that of the environment (`HTTPS_PROXY`, `HTTP_PROXY`, "
            "`ALL_PROXY`, `NO_PROXY`), never for this machine itself."
        ),
    ] = None
    health: Annotated[
        str,
        Meta(
            description="What is asked for to see whether it is there. With a slash in front it is a path of the host, "
            "as `/health` of vLLM; else it follows the base URL."
        ),
    ] = "models"
    health_seconds: Annotated[
        _Seconds,
        Meta(
            description="How often each worker asks for it, once for all models at one address with one key, "
            "unless requests have been answered meanwhile."
        ),
    ] = 5.0
    metrics: Annotated[
        str,
        Meta(description="Path of its metrics, as `health` is written; of `trtllm-serve`, `/prometheus/metrics`."),
    ] = "/metrics"
    metrics_of: Annotated[
        MetricsKind,
        Meta(
            description="Whose metrics those are, from which its load and KV cache are read every second. `auto`: of "
            "whichever is found there, if any. `none`: each worker knows only of the requests that it sent itself."
        ),
    ] = "auto"

    @property
    def sent_headers(self) -> dict[str, str]:
        """Return the configured headers with names in lower case, as those of the gateway that they replace."""
        return {name.lower(): value for name, value in self.headers.items()}

    @property
    def timeouts(self) -> Timeouts:
        """Timeouts of its connections."""
        return Timeouts(self.connect_seconds, self.first_byte_seconds, self.between_bytes_seconds)


def no_key() -> str | None:
    """Return no key, for upstreams that need none."""
    return None


@dataclass(frozen=True, slots=True)
class KeyedUpstream:
    """Settings of an upstream; `key` returns the provider's key for each request."""

    settings: OpenAISettings = field(default_factory=OpenAISettings)
    key: Callable[[], str | None] = no_key
