"""The section `responses`: how long and how many responses and conversations (OpenAI's Responses API) are stored."""

from typing import Annotated

from msgspec import Meta

from gateway.config.base import Record


class Responses(Record, frozen=True, kw_only=True):
    """What the store keeps of responses and conversations, which is text of users and models."""

    store: Annotated[
        bool,
        Meta(
            description="Whether any are kept. Without it requests that say nothing of `store` are answered and not "
            "kept, and those that ask for it, for `background`, `previous_response_id` or `conversation` are refused."
        ),
    ] = True
    ttl_seconds: Annotated[
        float,
        Meta(ge=60, le=366 * 86_400, description="How long one is kept after it was last used, in seconds."),
    ] = 30 * 86_400.0
    max_bytes: Annotated[
        int,
        Meta(
            ge=4096,
            le=64 << 20,
            description="Longest input of one response that is kept, in bytes of JSON, and as much of a background "
            "response's events, compressed.",
        ),
    ] = 8 << 20
    max_context_bytes: Annotated[
        int,
        Meta(
            ge=4096,
            le=256 << 20,
            description="Most that `previous_response_id` or a conversation may bring in, in bytes as they are stored.",
        ),
    ] = 16 << 20
    max_turns: Annotated[
        int, Meta(ge=1, le=10_000, description="Responses in a row, each with the one before as its previous one.")
    ] = 1000
    max_items: Annotated[int, Meta(ge=20, le=100_000, description="Items of one conversation.")] = 5000
    max_tenant_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            le=1 << 40,
            description="What all of one tenant's responses and conversations may have, in bytes as they are stored "
            "and 512 for each; beyond it, and half of them where the store's own memory is three quarters full, those "
            "go that were not used for the longest time.",
        ),
    ] = 64 << 20
    max_background: Annotated[
        int,
        Meta(ge=1, le=100_000, description="Background responses that one worker runs at once; one more gets 503."),
    ] = 256
