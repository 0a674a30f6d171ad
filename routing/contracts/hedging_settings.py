"""Settings of hedging: when a request gets a second attempt."""

from typing import Annotated

import msgspec
from msgspec import Meta

from routing.contracts.policy import Decision, RouteRequest


class Hedging(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a request without a token yet is given to a second replica; whichever answers first goes on alone."""

    after_ms: Annotated[
        float,
        Meta(gt=0, le=600_000, description="Milliseconds that the first replica has until its first token."),
    ]
    max_prompt_tokens: Annotated[
        int, Meta(ge=1, le=100_000_000, description="Longer prompts are not given to two replicas.")
    ]

    def applies(self, route: RouteRequest, decision: Decision) -> bool:
        """Whether a request may be hedged; requests on a pair may not."""
        return decision.prefill is None and route.prompt_tokens <= self.max_prompt_tokens
