"""The section `rollouts`: how a model goes from one version to another."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

Plan = Literal["canary", "blue_green", "shadow", "ab", "gates"]
SplitBy = Literal["tenant", "user", "conversation", "header"]

#: The shares of plans whose `stages` are unset.
DEFAULT_STAGES: Final[dict[Plan, tuple[float, ...]]] = {
    "canary": (0.1, 0.25, 0.5, 0.75, 1.0),
    "blue_green": (1.0,),
    "shadow": (),
    "ab": (0.5,),
    "gates": (0.1, 0.25, 0.5, 0.75, 1.0),
}

_Share = Annotated[float, Meta(gt=0, le=1)]
_Part = Annotated[float, Meta(ge=0, le=1)]
_Seconds = Annotated[float, Meta(ge=0, le=604_800)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Names = Annotated[tuple[str, ...], Meta(max_length=1024)]


class RolloutSplit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose requests go to the candidate, at whatever share."""

    by: Annotated[
        SplitBy,
        Meta(
            description="What keeps to one version: all requests of a `tenant`; those of a `user` "
            "(`safety_identifier`, else `user`; of a tenant's requests that name none: the tenant); a `conversation` "
            "(what the Responses API continues, else the first messages); or those with one value of `header`."
        ),
    ] = "conversation"
    header: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}$(?!\n)")] | None,
        Meta(
            description="Name of the header whose value counts, required for `by: header`, and only there. A request "
            "without it goes by its tenant."
        ),
    ] = None
    tenants: Annotated[_Names, Meta(description="Only requests of these tenants are split; empty: of all.")] = ()
    tiers: Annotated[_Names, Meta(description="Only requests of these tiers are split; empty: of all.")] = ()


class RolloutBounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a candidate is worse than the stable version, so that it is rolled back."""

    error_rate: Annotated[_Part, Meta(description="Share of its answers that may fail; above it: rolled back.")] = 0.01
    p99_ratio: Annotated[
        float,
        Meta(
            ge=1,
            le=1000,
            description="How many times the stable version's p99 of the first token, the pace and the whole time its "
            "own may be.",
        ),
    ] = 2.0
    slower: Annotated[
        float,
        Meta(
            ge=0,
            le=100,
            description="By which part its times may be longer, on like requests, before a difference that is no "
            "chance counts as worse.",
        ),
    ] = 0.1
    worse: Annotated[
        _Part,
        Meta(
            description="By how much the shares of failed, refused, empty and truncated answers, and of broken JSON "
            "and tool calls, may be higher before such a difference counts as worse."
        ),
    ] = 0.005
    false_rollbacks: Annotated[
        float,
        Meta(
            ge=1e-6,
            le=0.2,
            description="Chance, over a whole rollout, that a candidate as good as the stable version is found worse.",
        ),
    ] = 0.01


class ShadowSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Copies of requests that the candidate answers for nobody, in the plans `shadow` and `gates`."""

    share: Annotated[_Share, Meta(description="Share of requests that are copied.")] = 0.1
    room: Annotated[
        _Share, Meta(description="Part of the candidate's room that copies may take at any time; others are left out.")
    ] = 0.5
    similarity: Annotated[
        Literal["tokens", "embeddings"],
        Meta(
            description="How answers that are not greedy are compared: by the tokens that they share, or by the cosine "
            "of embeddings."
        ),
    ] = "tokens"
    embeddings: Annotated[
        str | None,
        Meta(description="Name of a model of this file that makes them; required for `embeddings`, and only there."),
    ] = None
    similar: Annotated[_Part, Meta(description="Similarity from which on two answers count as alike.")] = 0.8
    alike: Annotated[
        _Part, Meta(description="Share of compared answers that must be alike, or the candidate is rolled back.")
    ] = 0.0
    timeout_seconds: Annotated[
        _Seconds,
        Meta(
            description="Most time after `hold_seconds` until `min_requests` copies have been answered; then it ends "
            "as inconclusive, and the candidate is left."
        ),
    ] = 3600.0


GoalMeasure = Literal[
    "ttft",
    "tpot",
    "seconds",
    "errors",
    "refusals",
    "output_tokens",
    "cost",
    "thumbs_up",
    "regenerated",
    "accepted",
]


class Goal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The measure that decides an A/B test."""

    measure: Annotated[
        GoalMeasure,
        Meta(description="The measure: times and costs for each answer, or the share of answers with that property."),
    ]
    better: Annotated[Literal["lower", "higher"], Meta(description="Which way is better.")] = "lower"
    effect: Annotated[
        float,
        Meta(
            gt=0,
            le=10,
            description="Smallest difference of interest, as a part of the stable version's value: versions are as "
            "good where it is ruled out, and the sample that is still needed is worked out for it.",
        ),
    ] = 0.05


class WarmupShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of warm-up request."""

    prompt_tokens: Annotated[int, Meta(ge=1, le=100_000_000, description="Length of its prompt.")]
    output_tokens: Annotated[int, Meta(ge=1, le=65_536, description="Most tokens of its answer.")] = 16


class Warmup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Warm-up requests to a candidate's replicas before they get others', one replica after the other."""

    requests: Annotated[_Count, Meta(description="Requests to each replica; 0: none.")] = 8
    shapes: Annotated[
        tuple[WarmupShape, ...],
        Meta(min_length=1, max_length=64, description="Their kinds, in turn; those that exceed the context are cut."),
    ] = (WarmupShape(prompt_tokens=32), WarmupShape(prompt_tokens=512), WarmupShape(prompt_tokens=2048))
    ttft_ms: Annotated[
        Annotated[float, Meta(gt=0, le=600_000)] | None,
        Meta(
            description="Milliseconds in which the last one of each kind must have its first token, or the rollout "
            "goes no further; unset: the model's `routing.targets`."
        ),
    ] = None
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=86_400, description="Most time for the candidate to be started and warm.")
    ] = 1800.0


class Gates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The gates before the stages in the plan `gates`: a smoke test, a golden set, a shadow."""

    smoke: Annotated[_Count, Meta(description="Requests that all must be answered without an error.")] = 20
    golden: Annotated[
        str | None,
        Meta(
            description="Corpus that both versions answer, as `penstock replay record` writes it, relative to this "
            "file's folder; unset: this gate is left out."
        ),
    ] = None
    alike: Annotated[
        _Part, Meta(description="Share of the golden set's answers that must be alike, as `shadow.similar` says.")
    ] = 0.9


class Rollout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of a model's version. It starts when it is new in this file, and once only."""

    model: Annotated[str, Meta(description="Name of a model of this file; it has one rollout at a time.")]
    to: Annotated[
        str, Meta(min_length=1, max_length=128, description="The candidate: a version of the model that is not stable.")
    ]
    plan: Annotated[
        Plan,
        Meta(
            description="`canary`: stage by stage. `blue_green`: all requests at once, when the candidate is warm. "
            "`shadow`: copies alone, no client sees an answer. `ab`: a fixed share until `goal` is decided or it is "
            "ended. `gates`: smoke test, golden set, shadow and canary, one after the other."
        ),
    ] = "canary"
    stages: Annotated[
        Annotated[tuple[_Share, ...], Meta(min_length=1, max_length=64)] | None,
        Meta(
            description="The candidate's shares, rising up to 1 (for `ab`: one share). Unset: 0.1, 0.25, 0.5, 0.75 and "
            "1 for `canary` and `gates`, 1 for `blue_green`, 0.5 for `ab`. Not for `shadow`."
        ),
    ] = None
    hold_seconds: Annotated[_Seconds, Meta(description="Least time in each stage.")] = 60.0
    min_requests: Annotated[
        _Count, Meta(description="Least requests that the candidate must have answered in each stage.")
    ] = 100
    surge: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        Meta(
            description="Most of the candidate's replicas that are started at one time, where a launcher starts them; "
            "unset: as many as the stable version has."
        ),
    ] = None
    split: Annotated[RolloutSplit, Meta(description="Whose requests go to the candidate.")] = RolloutSplit()
    bounds: Annotated[RolloutBounds, Meta(description="When the candidate is worse.")] = RolloutBounds()
    shadow: Annotated[ShadowSettings, Meta(description="Copied requests: `shadow` and `gates` only.")] = (
        ShadowSettings()
    )
    goal: Annotated[Goal | None, Meta(description="What is compared: required for `ab`, and only there.")] = None
    warmup: Annotated[Warmup, Meta(description="What a candidate does before it gets requests.")] = Warmup()
    gates: Annotated[Gates, Meta(description="What comes before the stages: `gates` only.")] = Gates()
    webhook: Annotated[
        str | None,
        Meta(description="Address, `http://` or `https://`, that gets each event as a JSON POST; unset: none."),
    ] = None

    @property
    def shares(self) -> tuple[float, ...]:
        """The candidate's shares by stage; none for a shadow."""
        return DEFAULT_STAGES[self.plan] if self.stages is None else self.stages
