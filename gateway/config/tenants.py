"""Tenants, tiers and limits, as the configuration writes them and the store keeps them.

Every structure is frozen and refuses unknown fields; `gateway/config/tenant_checks.py` has the rules that span fields.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record

# Python's $ also matches before a final line feed; the lookahead keeps that out and means nothing elsewhere.
END: Final = r"$(?!\n)"
NAME: Final = rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}{END}"
MODEL_PATTERN: Final = rf"^[A-Za-z0-9._:/@+*?-]{{1,128}}{END}"
#: The tenant of keys that name none.
DEFAULT_TENANT: Final = "default"

#: Counts stay far below 2^53, the bound of exact integers in the store's Lua.
MAX_COUNT: Final = 10**12
MAX_USD: Final = 10**6

_Count = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
_Tokens = Annotated[int, Meta(ge=1, le=100_000_000)]
_Name = Annotated[str, Meta(pattern=NAME)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Patterns = Annotated[tuple[Annotated[str, Meta(pattern=MODEL_PATTERN)], ...], Meta(min_length=1, max_length=256)]


class Budget(Record, frozen=True, kw_only=True):
    """Money for a calendar period, by the models' price tables."""

    usd: Annotated[float, Meta(ge=1e-6, le=MAX_USD, description="US dollars for one period.")]
    period: Annotated[
        Literal["day", "month"], Meta(description="Calendar day or month in UTC, by the store's clock.")
    ] = "month"
    alerts: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=100)], ...],
        Meta(
            max_length=8, description="Percentages of it that are announced, once each per period, as they are spent."
        ),
    ] = (75, 90)


class Limits(Record, frozen=True, kw_only=True):
    """Bounds on use, each of them optional. A minute is any 60 seconds in a row, not one of the clock's."""

    rpm: Annotated[_Count | None, Meta(description="Requests per minute.")] = None
    tpm: Annotated[_Count | None, Meta(description="Tokens per minute, input and output together.")] = None
    input_tpm: Annotated[_Count | None, Meta(description="Input tokens per minute.")] = None
    output_tpm: Annotated[_Count | None, Meta(description="Output tokens per minute.")] = None
    concurrency: Annotated[_Count | None, Meta(description="Requests under way or waiting at one time.")] = None
    max_input_tokens: Annotated[_Tokens | None, Meta(description="Longest prompt of one request, in tokens.")] = None
    max_output_tokens: Annotated[
        _Tokens | None,
        Meta(description="Most output tokens that one request may ask for, over all of its `n` answers."),
    ] = None
    default_output_tokens: Annotated[
        _Tokens | None,
        Meta(description="Output tokens of each answer when a request names no limit; unset: all that fit."),
    ] = None
    budget: Annotated[Budget | None, Meta(description="Money per day or month.")] = None


class Waiting(Record, frozen=True, kw_only=True):
    """Bounds of a tenant's queue in each worker."""

    max_requests: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Requests of the tenant that may wait in one worker.")
    ] = 256
    max_seconds: Annotated[
        float, Meta(gt=0, le=86_400, description="Longest wait for a turn; after it the answer is 503.")
    ] = 60.0


class DataRules(Record, frozen=True, kw_only=True):
    """Uses of a tenant's requests beside their answers: copies to candidates, recordings."""

    shadow: Annotated[
        bool, Meta(description="Whether a candidate of a rollout may get copies of its requests, for nobody to see.")
    ] = True
    text: Annotated[
        bool,
        Meta(
            description="Whether prompts and answers may be kept, without personal data and secrets: in corpora that "
            "`penstock replay record` makes, and in reports of shadows. If not, only hashes and measures are."
        ),
    ] = False


class Tier(Record, frozen=True, kw_only=True):
    """A class of service that tenants belong to."""

    name: Annotated[str, Meta(pattern=NAME, description="Name that tenants refer to.")]
    weight: Annotated[
        float,
        Meta(ge=0.01, le=1000, description="Share of each of its tenants when tenants wait for their turns."),
    ] = 1.0
    reserved: Annotated[
        _Share,
        Meta(description="Part of the fleet kept for the tier's tenants while any is active; lent out while none is."),
    ] = 0.0


class Tenant(Record, frozen=True, kw_only=True):
    """Who uses the gateway: its keys share the limits, the budget and the place in the queue."""

    name: Annotated[
        str,
        Meta(
            pattern=NAME,
            description="Unique name: 1 to 64 letters, digits, `.`, `_`, `-`. `default` has the keys "
            "that name no tenant.",
        ),
    ]
    tier: Annotated[str | None, Meta(description="Name of a tier; unset: the last one, which is shed first.")] = None
    models: Annotated[_Patterns, Meta(description="Models it may use; `*` and `?` match any characters.")] = ("*",)
    limits: Annotated[Limits, Meta(description="Bounds over all of its keys and models.")] = Limits()
    model_limits: Annotated[
        dict[str, Limits], Meta(description="Further bounds for single models, by the model's name.")
    ] = msgspec.field(default_factory=dict)
    waiting: Annotated[Waiting, Meta(description="Bounds of its queue.")] = Waiting()
    on_store_failure: Annotated[
        Literal["fail_closed", "fail_open"],
        Meta(
            description="What happens while the store does not answer: `fail_closed` answers 503; `fail_open` serves "
            "keys that the worker knows, counts in the worker alone, and books the use once the store is back."
        ),
    ] = "fail_closed"
    safety: Annotated[
        _Name | None,
        Meta(description="Name of one of `safety.policies`; unset: the rules that stand in `safety` itself."),
    ] = None
    data: Annotated[DataRules, Meta(description="What may become of its requests.")] = DataRules()
    cache_group: Annotated[
        _Name | None,
        Meta(
            description="Tenants of one group share cached prefixes, so how fast an answer comes may tell one of them "
            "what another has asked. Unset: a tenant has its own alone."
        ),
    ] = None
    chooses_version: Annotated[
        bool,
        Meta(
            description="Whether its requests may name the version of a model that answers, by the header "
            "`x-penstock-version`; a request of another tenant that names one is refused with 403."
        ),
    ] = False


#: Ordered from the highest to the lowest.
DEFAULT_TIERS: Final = (
    Tier(name="gold", weight=4.0, reserved=0.3),
    Tier(name="silver", weight=2.0, reserved=0.2),
    Tier(name="bronze", weight=1.0, reserved=0.1),
)
