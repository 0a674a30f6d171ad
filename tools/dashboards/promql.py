"""Build PromQL over declared metrics; an undeclared label fails here, when the query is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from observability.metrics.metric import Metric

#: Grafana's variable for a range that holds at least four scrapes.
RATE_INTERVAL: Final = "$__rate_interval"
#: Grafana's variable for the whole time that is shown.
WHOLE_RANGE: Final = "$__range"


class Not(NamedTuple):
    """A matcher for every value but these."""

    values: tuple[str, ...]


Wanted = str | tuple[str, ...] | Not


@dataclass(frozen=True)
class Scope:
    """The scope of queries: `filters`, by label, apply to each metric that has the label.

    `window` is the range of rates.
    """

    filters: Mapping[str, str] = field(default_factory=dict)
    window: str = RATE_INTERVAL

    def over(self, window: str) -> "Scope":
        """Return the same scope with another range of rates."""
        return Scope(self.filters, window)

    def series(self, metric: Metric, **where: Wanted) -> str:
        """Select the metric's series."""
        return self._selector(metric, "", where)

    def rate(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """Return a counter's growth per second."""
        return _sum(_by(metric, by), f"rate({self._selector(metric, '', where)}[{self.window}])")

    def increase(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """Return a counter's growth in the window."""
        return _sum(_by(metric, by), f"increase({self._selector(metric, '', where)}[{self.window}])")

    def now(self, metric: Metric, *by: str, how: str = "sum", **where: Wanted) -> str:
        """Return a gauge, with several series aggregated by `how`."""
        return _aggregate(how, _by(metric, by), self._selector(metric, "", where))

    def quantile(self, quantile: float, metric: Metric, *by: str, **where: Wanted) -> str:
        """Return a quantile of a histogram."""
        return f"histogram_quantile({quantile:g}, {self.buckets(metric, *by, **where)})"

    def buckets(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """Return the growth of each bucket of a histogram per second, from which quantiles are made."""
        return _sum(("le", *_by(metric, by)), f"rate({self._selector(metric, '_bucket', where)}[{self.window}])")

    def heat(self, metric: Metric, **where: Wanted) -> str:
        """Return a histogram's buckets for a heatmap."""
        return _sum(("le",), f"increase({self._selector(metric, '_bucket', where)}[{self.window}])")

    def observed(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """Return the observations of a histogram per second."""
        return _sum(_by(metric, by), f"rate({self._selector(metric, '_count', where)}[{self.window}])")

    def amount(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """Return the sum of a histogram's observations per second."""
        return _sum(_by(metric, by), f"rate({self._selector(metric, '_sum', where)}[{self.window}])")

    def mean(self, metric: Metric, *by: str, **where: Wanted) -> str:
        """Return the mean of a histogram's observations."""
        return f"{self.amount(metric, *by, **where)}\n/\n{self.observed(metric, *by, **where)}"

    def within(self, metric: Metric, seconds: float, *by: str, **where: Wanted) -> str:
        """Return the observations of at most `seconds`, which must be the bound of a bucket, per second.

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
        """Sum what replicas report: several gateways that see one replica count once."""
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
    """Divide a part by a whole with the same labels: 0 where the part has no series, nothing where the whole is 0."""
    return share(f"(\n{indented(or_zero(part, whole))}\n)", whole)


def share(part: str, whole: str) -> str:
    """Divide a part that has series wherever the whole has."""
    return f"{part}\n/\n(\n  {whole} > 0\n)"


def or_zero(part: str, whole: str) -> str:
    """Return `part`, or 0 where only `whole` has a series: a counter of failures has none before the first failure."""
    return f"{part}\nor\n0 * {whole}"


def indented(text: str) -> str:
    """Indent the lines by two columns."""
    return "\n".join(f"  {line}" for line in text.splitlines())
