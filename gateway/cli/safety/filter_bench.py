"""`penstock safety bench`: measure precision, recall and speed of filters on labelled texts."""

import argparse
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gateway.cli.safety.filter_bench_tables import injection_table, miss_lines, spans_table, speed_table
from gateway.cli.safety.filter_measures import InjectionMeasures, SpanMeasures, injection_measures, span_measures
from gateway.cli.safety.safety_output import Unusable, put, unusable
from gateway.cli.safety.safety_rules import chosen_filters
from safety.filter import StreamFilter
from safety.injection.injection_filter import InjectionFilter
from safety.sets.labelled import SHIPPED, Labelled, SetError, load
from safety.sets.scoring import Score
from safety.sets.speed import Speed, alone, together

_MOST_KINDS: Final = 5


def bench(arguments: argparse.Namespace) -> int:
    """Measure the filters and print the figures."""
    try:
        put(_measure(arguments))
    except (Unusable, SetError) as error:
        return unusable(error)
    return 0


def _measure(arguments: argparse.Namespace) -> str:
    filters, kinds, thresholds = chosen_filters(arguments)
    labelled = load(arguments.data or SHIPPED)
    finders = {name: one for name, one in filters.items() if not isinstance(one, InjectionFilter)}
    spans = span_measures(finders, kinds, labelled.spans) if finders and labelled.spans else None
    injections = [
        injection_measures(name, one, thresholds[name], labelled.injections)
        for name, one in filters.items()
        if isinstance(one, InjectionFilter) and labelled.injections
    ]
    if not injections and (problem := _no_measures(spans, labelled)):
        raise Unusable(f"nothing was measured: {problem} ({', '.join(filters)})")
    speeds = _speeds(filters, labelled)
    misses = arguments.misses
    if arguments.json:
        return msgspec.json.format(msgspec.json.encode(_plain(spans, injections, speeds, misses))).decode()
    blocks = [spans_table(spans)] if spans else []
    blocks += map(injection_table, injections)
    blocks.append(speed_table(speeds))
    if misses:
        blocks += [miss_lines(measures, misses) for measures in (spans, *injections) if measures]
    return "\n\n".join("\n".join(block) for block in blocks)


def _no_measures(spans: SpanMeasures | None, labelled: Labelled) -> str:
    """Say why no filter could be measured; empty if one could."""
    if spans is None:
        there, wanted = ("spans", "finds stretches") if labelled.spans else ("injection", "scores attempts")
        return f"the data has texts with `{there}` alone, and no chosen filter {wanted}"
    kinds = sorted({span.kind for text in labelled.spans for span in text.spans})
    if not kinds or spans.all.labelled or spans.all.reported:
        return ""
    shown = ", ".join(kinds[:_MOST_KINDS]) + (", ..." if len(kinds) > _MOST_KINDS else "")
    return f"the data has {shown}, and no chosen filter looks for that"


def _speeds(filters: Mapping[str, StreamFilter], labelled: Labelled) -> dict[str, Speed]:
    texts = [*(text.text for text in labelled.spans), *(text.text for text in labelled.injections)]
    speeds = {name: alone(one, texts) for name, one in filters.items()}
    if len(filters) > 1:
        speeds["(together)"] = together(filters.values(), texts)
    return speeds


def _plain(
    spans: SpanMeasures | None, injections: list[InjectionMeasures], speeds: Mapping[str, Speed], misses: int
) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    if spans:
        plain["spans"] = {
            "filters": spans.filters,
            "texts": spans.texts,
            "kinds": {kind: _score(score) for kind, score in spans.kinds.items()},
            "all": _score(spans.all),
            "any_kind": _score(spans.any_kind),
            "misses": [miss._asdict() for miss in spans.misses[:misses]],
            "false_alarms": [miss._asdict() for miss in spans.false_alarms[:misses]],
        }
    if injections:
        plain["injection"] = [
            {
                "filter": one.filter,
                "texts": one.texts,
                "threshold": one.threshold,
                "families": {
                    name: {"texts": family.texts, **_score(family.score)} for name, family in one.families.items()
                },
                "all": _score(one.all),
                "at_precision": one.precision,
                "best": one.best and {"threshold": one.best[0], **_score(one.best[1])},
                "misses": [miss._asdict() for miss in one.misses[:misses]],
                "false_alarms": [miss._asdict() for miss in one.false_alarms[:misses]],
            }
            for one in injections
        ]
    plain["speed"] = {
        name: {
            "microseconds_per_1000_characters": speed.whole,
            "microseconds_per_token": speed.token,
            "characters_held_back": speed.held_back,
        }
        for name, speed in speeds.items()
    }
    return plain


def _score(score: Score) -> dict[str, Any]:
    return {**score._asdict(), "precision": score.precision, "recall": score.recall, "f1": score.f1}
