"""What `ReplicaSpec.settings` is for engine `openai`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from protos.features import Feature
from routing.transports.http.upstream_timeouts import Timeouts

#: Whose metrics an upstream has; `auto`: whatever is found at `/metrics`, if anything is.
MetricsKind = Literal["auto", "vllm", "sglang", "trtllm", "none"]

#: Endpoints that it may have, and OpenAI's own API has not.
MORE_ENDPOINTS: Final = Feature.RERANK | Feature.SCORE | Feature.TOKENIZE
#: What an upstream with the whole API is trusted with. Its answers are bytes, so none goes on elsewhere.
API_FEATURES: Final = ~(Feature.RESUMES | Feature.LORA | MORE_ENDPOINTS) & Feature(sum(Feature))


def no_key() -> str | None:
    """An upstream that asks for none."""
    return None


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """`model` is its own name there; empty: as here. `key` gives the provider's key whenever one is sent.

    `headers` go with every request. `limit_as` is its name for the bound of a chat's answer, `salt_as` its name for the
    salt of its prefix cache; empty: it gets none. `max_in_flight` bounds one worker's requests; 0: as many as come.
    `health` and `metrics` are paths: from the root of the host if they begin with a slash, else below the base URL.
    `health_seconds` is how often its health is looked at. `forces_usage`: it understands `stream_options`.
    """

    model: str = ""
    key: Callable[[], str | None] = no_key
    headers: Mapping[str, str] = field(default_factory=dict)
    timeouts: Timeouts = field(default_factory=Timeouts)
    limit_as: str = "max_tokens"
    salt_as: str = ""
    max_in_flight: int = 0
    health: str = "models"
    health_seconds: float = 5.0
    metrics: str = "/metrics"
    metrics_kind: MetricsKind = "auto"
    forces_usage: bool = True
