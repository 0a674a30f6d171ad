"""Prometheus' text exposition format, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(slots=True)
class Family:
    """A metric with all of its series. `name` of a counter ends in `_total`."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        """One series."""
        self.samples.append((labels, value))


def exposition(families: Iterable[Family]) -> str:
    """The text that a scrape gets; a family without series is left out."""
    return "".join(line + "\n" for family in families if family.samples for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {family.kind}"
    for labels, value in family.samples:
        shown = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items())
        yield f"{family.name}{{{shown}}} {value!r}" if shown else f"{family.name} {value!r}"
