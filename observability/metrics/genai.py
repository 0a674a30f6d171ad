"""Convert metrics to OpenTelemetry's conventions for generative AI when they are read: requests cost no more."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from observability.exposition import Family, Observed
from observability.metrics.declarations import BY_NAME, METRICS
from observability.metrics.metric import GenAi

#: Labels in Prometheus -> attributes of the conventions.
MODEL: Final = "gen_ai_request_model"
TOKEN_TYPE: Final = "gen_ai_token_type"
ATTRIBUTES: Final = {MODEL: "gen_ai.request.model", TOKEN_TYPE: "gen_ai.token.type"}
#: Exposed names -> names and units of the conventions.
NAMES: Final = {
    metric.genai.exposed: (metric.genai.name, metric.unit) for metric in METRICS if metric.genai is not None
}


def genai_families(families: Iterable[Family]) -> list[Family]:
    """Convert the histograms that have a name in the conventions, summed over pools, to the buckets that these
    require.
    """
    found: dict[str, Family] = {}
    for family in families:
        metric = BY_NAME.get(family.name)
        if metric is None or metric.genai is None or not family.observed:
            continue
        genai = metric.genai
        same = found.get(genai.exposed)
        if same is None:
            same = found[genai.exposed] = Family(genai.exposed, "histogram", _help(genai), bounds=genai.bounds)
        same.observed += _by_model(family, genai)
    return list(found.values())


def _help(genai: GenAi) -> str:
    return f"{genai.name} of OpenTelemetry's semantic conventions."


def _by_model(family: Family, genai: GenAi) -> list[Observed]:
    sums: dict[str, tuple[list[int], float]] = {}
    for labels, counts, total in family.observed:
        narrowed = _narrowed(counts, family.bounds, genai.bounds)
        before, so_far = sums.get(labels["model"], ([0] * len(narrowed), 0.0))
        added = [one + other for one, other in zip(before, narrowed, strict=True)]
        sums[labels["model"]] = (added, so_far + total)
    return [Observed(_labels(model, genai), counts, total) for model, (counts, total) in sums.items()]


def _labels(model: str, genai: GenAi) -> Mapping[str, str]:
    return {MODEL: model, TOKEN_TYPE: genai.token_type} if genai.token_type else {MODEL: model}


def _narrowed(counts: Sequence[int], bounds: Sequence[float], wanted: Sequence[float]) -> list[int]:
    """Move observations to fewer buckets, whose bounds are among the old ones."""
    narrowed = [0] * (len(wanted) + 1)
    for bound, count in zip((*bounds, float("inf")), counts, strict=True):
        narrowed[bisect_left(wanted, bound)] += count
    return narrowed
