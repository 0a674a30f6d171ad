"""Write Prometheus' text exposition format, version 0.0.4:
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, Literal, NamedTuple

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Observed(NamedTuple):
    """One series of a histogram: the observations in each bucket, the one above all bounds last, and their sum."""

    labels: Mapping[str, str]
    counts: Sequence[int]
    sum: float


@dataclass(slots=True)
class Family:
    """A metric with all of its series; histograms have `bounds` and `observed`. A counter's `name` ends in `_total`."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)
    bounds: Sequence[float] = ()
    observed: list[Observed] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        """Add one series."""
        self.samples.append((labels, value))


class _Escaped(dict[str, str]):
    """A cache of escaped label values: the same ones come again and again."""

    def __missing__(self, text: str) -> str:
        escaped = self[text] = text.translate(_ESCAPES)
        return escaped


def exposition(families: Iterable[Family]) -> str:
    """Return the text of a scrape; a family without series is left out."""
    lines: list[str] = []
    escaped = _Escaped()
    for family in families:
        if family.samples or family.observed:
            lines += (f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}")
            lines += _samples(family, escaped)
            lines += _histograms(family, escaped)
    return "\n".join([*lines, ""])


def _samples(family: Family, escaped: Mapping[str, str]) -> Iterator[str]:
    name = family.name
    for labels, value in family.samples:
        shown = _shown(labels, escaped)
        yield f"{name}{{{shown}}} {value!r}" if shown else f"{name} {value!r}"


def _histograms(family: Family, escaped: Mapping[str, str]) -> Iterator[str]:
    name = family.name
    les = [*(f'le="{float(bound)!r}"}}' for bound in family.bounds), 'le="+Inf"}']
    for labels, counts, total in family.observed:
        shown = _shown(labels, escaped)
        begin, own = (f"{name}_bucket{{{shown},", f"{{{shown}}}") if shown else (f"{name}_bucket{{", "")
        count = 0
        for le, count in zip(les, accumulate(counts), strict=True):
            yield f"{begin}{le} {count}"
        yield f"{name}_sum{own} {total!r}"
        yield f"{name}_count{own} {count}"


def _shown(labels: Mapping[str, str], escaped: Mapping[str, str]) -> str:
    return ",".join([f'{name}="{escaped[text]}"' for name, text in labels.items()])
