"""Format the measures of filters as tables for a terminal."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.cli.safety.filter_measures import InjectionMeasures, Miss, SpanMeasures
from gateway.cli.safety.safe_text import excerpt
from safety.sets.scoring import Score
from safety.sets.speed import Speed

_LEAST_WIDTH: Final = 20


def spans_table(measures: SpanMeasures) -> Iterator[str]:
    """Return each kind's figures and the totals."""
    yield f"{' + '.join(measures.filters)}: {measures.texts:,} texts"
    yield ""
    header = ("KIND", "LABELLED", "MISSED", "REPORTED", "FALSE", "PRECISION", "RECALL", "F1")
    rows = [(kind, *_figures(score)) for kind, score in measures.kinds.items()]
    rows += [("ALL", *_figures(measures.all)), ("ALL, OF ANY KIND", *_figures(measures.any_kind))]
    yield from _numbers([header, *rows])


def injection_table(measures: InjectionMeasures) -> Iterator[str]:
    """Return each family's figures at the threshold, the totals, and the best figures that another threshold would
    give.
    """
    yield f"{measures.filter}: {measures.texts:,} texts, threshold {measures.threshold:.2f}"
    yield ""
    rows = [
        (family or "-", *_share(score.labelled, score.found), *_share(texts - score.labelled, score.false_alarms))
        for family, (score, texts) in measures.families.items()
    ]
    yield from _numbers([("FAMILY", "ATTACKS", "FOUND", "SHARE", "OTHERS", "FALSE", "SHARE"), *rows])
    yield ""
    thresholds = [(f"{measures.threshold:.2f}", *_figures(measures.all))]
    if measures.best:
        thresholds.append((f"{measures.best[0]:.2f} (best)", *_figures(measures.best[1])))
    yield from _numbers(
        [("THRESHOLD", "ATTACKS", "MISSED", "REPORTED", "FALSE", "PRECISION", "RECALL", "F1"), *thresholds]
    )
    yield ""
    yield (
        f"best: the threshold that finds most with a precision of {measures.precision:g} or more"
        if measures.best
        else f"no threshold has a precision of {measures.precision:g}"
    )


def speed_table(speeds: Mapping[str, Speed]) -> Iterator[str]:
    """Return each filter's speed."""
    yield "processor time and hold-back"
    yield ""
    rows = [(name, f"{speed.whole:.1f}", f"{speed.token:.2f}", str(speed.held_back)) for name, speed in speeds.items()]
    yield from _numbers([("FILTER", "US/1,000 CHARACTERS", "US/STREAMED TOKEN", "CHARACTERS HELD BACK"), *rows])


def miss_lines(measures: SpanMeasures | InjectionMeasures, most: int) -> Iterator[str]:
    """Format the first misses and false alarms, a line each."""
    name = measures.filter if isinstance(measures, InjectionMeasures) else " + ".join(measures.filters)
    for title, misses in (("missed", measures.misses), ("false alarms", measures.false_alarms)):
        shown = "" if len(misses) <= most else f", the first {most}"
        yield f"{name}: {len(misses)} {title}{shown}"
        yield from (f"  {line}" for line in _miss_rows(misses[:most]))


def _miss_rows(misses: Sequence[Miss]) -> Iterator[str]:
    left = max((len(miss.kind) for miss in misses), default=0)
    width = max(shutil.get_terminal_size().columns - left - 4, _LEAST_WIDTH)
    for kind, text, start, end in misses:
        around = max(width - (end - start), 0) // 2
        shown = excerpt(text, max(0, start - around), min(len(text), end + around), width)
        yield f"{kind:<{left}}  {shown}"


def _figures(score: Score) -> tuple[str, ...]:
    counts = (score.labelled, score.missed, score.reported, score.false_alarms)
    shares = (score.precision, score.recall, score.f1)
    return (*(f"{count:,}" for count in counts), *("-" if share is None else f"{share:.3f}" for share in shares))


def _share(whole: int, part: int) -> tuple[str, str, str]:
    return (str(whole), str(part), f"{part / whole:.3f}") if whole else ("-", "-", "-")


def _numbers(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Align names to the left and numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for first, *rest in rows:
        yield "  ".join([first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])])
