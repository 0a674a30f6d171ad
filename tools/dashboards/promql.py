"""PromQL over declared metrics: a label that is not declared fails here, when the query is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from observability.metrics.metric import Metric

#: What Grafana puts in: a range that holds at least four scrapes.
RATE_INTERVAL: Final = "$__rate_interval"
#: What Grafana puts in: the whole time that is shown.
WHOLE_RANGE: Final = "$__range"


class Not(NamedTuple):
    """A matcher for every value but these."""

    values: tuple[str, ...]


Wanted = str | tuple[str, ...] | Not


@dataclass(frozen=True)
class Scope:
    """What queries look at: `filters`, by label, apply to each metric that has the label.

    `window` is the range of rates.
    """

    filters: Mapping[str, str] = field(default_factory=dict)
    window: str = RATE_INTERVAL

    def over(self, window: str) -> "Scope":
        """The same with another range of rates."""
        return Scope(self.filters, window)

    def series(self, metric: Metric, **where: Wanted) -> str:
        """A selector of the metric's series, as they are."""
        return self._selector(metric, "", where)

    def rate(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """What a counter gains in a second."""
        return _sum(_by(metric, by), f"rate({self._selector(metric, '', where)}[{self.window}])")

    def increase(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """What a counter gains in the window."""
        return _sum(_by(metric, by), f"increase({self._selector(metric, '', where)}[{self.window}])")

    def now(self, metric: Metric, *by: str, how: str = "sum", **where: Wanted) -> str:
        """A gauge, of which several series become one."""
        return _aggregate(how, _by(metric, by), self._selector(metric, "", where))

    def quantile(self, quantile: float, metric: Metric, *by: str, **where: Wanted) -> str:
        """A quantile of a histogram."""
        return f"histogram_quantile({quantile:g}, {self.buckets(metric, *by, **where)})"

    def buckets(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """How fast each bucket of a histogram grows: what quantiles are made from."""
        return _sum(("le", *_by(metric, by)), f"rate({self._selector(metric, '_bucket', where)}[{self.window}])")

    def heat(self, metric: Metric, **where: Wanted) -> str:
        """A histogram's buckets for a heatmap."""
        return _sum(("le",), f"increase({self._selector(metric, '_bucket', where)}[{self.window}])")

    def observed(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """Observations of a histogram in a second."""
        return _sum(_by(metric, by), f"rate({self._selector(metric, '_count', where)}[{self.window}])")

    def amount(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """What the observations of a second add up to."""
        return _sum(_by(metric, by), f"rate({self._selector(metric, '_sum', where)}[{self.window}])")

    def mean(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """The mean of a histogram's observations."""
        return f"{self.amount(metric, *by, **where)}\n/\n{self.observed(metric, *by, **where)}"

    def within(self, metric: Metric, seconds: float, *by: str, **where: Wanted) -> str:
        """Observations of at most `seconds`, which must be the bound of a bucket, in a second.

        Prometheus 3 writes whole bounds as `2.0`, earlier ones as they are exposed.
        """
        if seconds not in metric.bounds:
            known = ", ".join(f"{bound:g}" for bound in metric.bounds)
            raise ValueError(f"{metric.name} has no bucket for {seconds:g} s; it has {known}")
        bound = f"{seconds:g}(\\\\.0)?" if seconds == int(seconds) else f"{seconds:g}".replace(".", "\\\\.")
        matchers = [*self._matchers(metric, where), f'le=~"{bound}"']
        selector = f"{metric.name}_bucket{{{', '.join(matchers)}}}"
        return _sum(_by(metric, by), f"rate({selector}[{self.window}])")

    def of_replicas(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """What replicas report, added up: several gateways that see one replica count once."""
        one = _aggregate("max", ("model", "pool", "replica"), self._selector(metric, "", where))
        return one if by == ("model", "pool", "replica") else _sum(_by(metric, by), one)

    def _selector(self, metric: Metric, suffix: str, where: Mapping[str, Wanted]) -> str:
        if (suffix != "") != (metric.kind == "histogram"):
            raise ValueError(f"{metric.name} is a {metric.kind}")
        matchers = ", ".join(self._matchers(metric, where))
        return f"{metric.name}{suffix}{{{matchers}}}" if matchers else f"{metric.name}{suffix}"

    def _matchers(self, metric: Metric, where: Mapping[str, Wanted]) -> list[str]:
        labels = _by(metric, tuple(where))
        shared = [label for label in self.filters if label in metric.labels and label not in where]
        return [f"{label}{self.filters[label]}" for label in shared] + [_matcher(one, where[one]) for one in labels]


def _matcher(label: str, wanted: Wanted) -> str:
    if isinstance(wanted, Not):
        return f'{label}!~"{"|".join(wanted.values)}"'
    return f'{label}="{wanted}"' if isinstance(wanted, str) else f'{label}=~"{"|".join(wanted)}"'


def _by(metric: Metric, labels: tuple[str, ...]) -> tuple[str, ...]:
    for label in labels:
        if label not in metric.labels:
            raise ValueError(f"{metric.name} has no label {label}")
    return labels


def _sum(labels: tuple[str, ...], inner: str) -> str:
    return _aggregate("sum", labels, inner)


def _aggregate(how: str, labels: tuple[str, ...], inner: str) -> str:
    return f"{how} by ({', '.join(labels)}) ({inner})" if labels else f"{how}({inner})"


def ratio(part: str, whole: str) -> str:
    """The part of a whole that has the same labels, 0 where it has no series; nothing where the whole is 0."""
    return share(f"(\n{indented(or_zero(part, whole))}\n)", whole)


def share(part: str, whole: str) -> str:
    """The same of a part that has series wherever the whole has."""
    return f"{part}\n/\n(\n  {whole} > 0\n)"


def or_zero(part: str, whole: str) -> str:
    """`part`, and 0 where only `whole` has a series: a counter of failures has none before the first failure."""
    return f"{part}\nor\n0 * {whole}"


def indented(text: str) -> str:
    """The lines, two columns further in."""
    return "\n".join(f"  {line}" for line in text.splitlines())
