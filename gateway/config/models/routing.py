"""A model's routing policy and its settings."""

from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta

from gateway.config.base import Record
from routing.contracts.hedging_settings import Hedging
from routing.contracts.policy_settings import Targets

PolicyName = Literal[
    "auto",
    "combined",
    "concurrency",
    "least_load",
    "long_context",
    "pd_heatmap",
    "power_of_two",
    "prefix",
    "round_robin",
]

#: Setting -> the policies that use it; all other policies refuse it.
USED_BY: Final[dict[str, tuple[str, ...]]] = {
    "tiers": ("concurrency",),
    "threshold": ("concurrency",),
    "heatmap": ("pd_heatmap", "combined"),
    "long_context_tokens": ("long_context",),
    "targets": ("auto",),
}


class RoutingTier(Record, frozen=True, kw_only=True):
    """Pools that take a model's requests at some concurrency."""

    pools: Annotated[
        tuple[str, ...],
        Meta(min_length=1, max_length=256, description="Names of the model's pools; of a pair either one's will do."),
    ]
    below: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        Meta(
            description="The tier serves while fewer sequences than this are in flight over the whole model. Needed "
            "for every tier but the last one, which has none."
        ),
    ] = None


class Routing(Record, frozen=True, kw_only=True):
    """How a model's requests are spread over its replicas. A setting that the policy does not use is refused."""

    policy: Annotated[
        PolicyName,
        Meta(
            description="`auto` sends a request where it, and those it delays, are expected to be answered soonest. "
            "`least_load`: to the least work for the replica's size. `prefix`: where most of its prompt is cached, "
            "unless that replica is overloaded. `concurrency`: to wide replicas while few requests are in flight, to "
            "narrow ones when there are many. `long_context`: long requests together, where room is kept for them. "
            "`pd_heatmap`: to a prefill/decode pair or a colocated replica by a profile; `combined`: the same, then "
            "by prefix or load. `power_of_two`: to the less loaded of two at random. `round_robin`: in turn."
        ),
    ] = "auto"
    tiers: Annotated[
        tuple[RoutingTier, ...],
        Meta(
            max_length=64,
            description="`concurrency`: the tiers, from the lowest concurrency to the highest; none: the pools of "
            "the widest replicas below the threshold, those of the narrowest from there on.",
        ),
    ] = ()
    threshold: Annotated[
        Literal["learned"] | Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        Meta(
            description="`concurrency`: sequences in flight from which on the narrow pools serve, 64 when unset; only "
            "without `tiers`. `learned`: each worker tries the tiers at every concurrency and keeps to the one that "
            "takes the least time for each token; the tiers then have no `below`."
        ),
    ] = None
    heatmap: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="`pd_heatmap` and `combined`: file that `penstock bench heatmap` wrote for this model and the "
            "shapes of its pools, relative to this file's folder."
        ),
    ] = None
    long_context_tokens: Annotated[
        Annotated[int, Meta(ge=2, le=100_000_000)] | None,
        Meta(description="`long_context`: prompt and expected answer that make a request long; unset: 16384 tokens."),
    ] = None
    targets: Annotated[
        Targets | None, Meta(description="`auto`: what it tries to keep to; unset: the defaults below.")
    ] = None
    hedging: Annotated[
        Hedging | None,
        Meta(description="A second replica for short prompts that wait long for their first token; unset: never."),
    ] = None

    @property
    def heatmap_path(self) -> Path | None:
        """The heatmap's path, absolute in a loaded configuration, or None."""
        return None if self.heatmap is None else Path(self.heatmap)
