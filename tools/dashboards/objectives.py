"""Define service-level objectives: good and bad events, targets, and burn rates of the error budget.

Windows and factors are those of "Alerting on SLOs" in Google's Site Reliability Workbook, for a period of 30 days:
https://sre.google/workbook/alerting-on-slos/
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from observability.metrics import declarations as m
from tools.dashboards.dashboard_kinds import COUNTED, FAILURES
from tools.dashboards.promql import Scope, ratio

#: The period of the error budget.
PERIOD: Final = "30d"
PERIOD_DAYS: Final = 30
#: Windows whose rates come from the counters themselves; longer ones are means of the first one's recorded series.
SHORT_WINDOWS: Final = ("5m", "30m", "1h", "2h", "6h")
LONG_WINDOWS: Final = ("1d", "3d", PERIOD)
WINDOWS: Final = (*SHORT_WINDOWS, *LONG_WINDOWS)


class Burn(NamedTuple):
    """An alert's condition: the budget burns `factor` times as fast as it may, over the long and the short window.

    The short one lets the alert end soon after its cause. `spent` percent of the budget is gone by then.
    """

    factor: float
    long: str
    short: str
    spent: int


#: Conditions that page an operator at once ...
FAST: Final = (Burn(14.4, "1h", "5m", 2), Burn(6, "6h", "30m", 5))
#: ... and that open a ticket for the next days.
SLOW: Final = (Burn(3, "1d", "2h", 10), Burn(1, "3d", "6h", 10))


@dataclass(frozen=True)
class Objective:
    """An objective: this part of the events is good."""

    #: The name within the names of rules.
    name: str
    title: str
    #: The bad events, in words.
    bad: str
    target: float
    #: Rates of bad and of all events, by model, over a window.
    bad_rate: str
    all_rate: str

    @property
    def budget(self) -> float:
        """Return the part that may be bad."""
        return round(1 - self.target, 9)

    @property
    def bad_rule(self) -> str:
        """Return the name of the recorded rate of bad events."""
        return f"model:penstock_{self.name}_bad:rate5m"

    @property
    def all_rule(self) -> str:
        """Return the name of the recorded rate of all events."""
        return f"model:penstock_{self.name}_all:rate5m"

    def ratio_rule(self, window: str) -> str:
        """Return the name of the recorded bad part, over one of the windows."""
        if window not in WINDOWS:
            raise ValueError(f"nothing is recorded over {window}")
        return f"model:penstock_{self.name}_bad:ratio_rate{window}"

    def ratio(self, window: str) -> str:
        """Return the expression of the bad part that is recorded under that name."""
        if window in LONG_WINDOWS:
            return f"avg_over_time({self.bad_rule}[{window}])\n/\n(\n  avg_over_time({self.all_rule}[{window}]) > 0\n)"
        return ratio(self.bad_rate.replace("$window", window), self.all_rate.replace("$window", window))

    def recorded(self) -> list[tuple[str, str]]:
        """Return names and expressions of the recording rules, each after those that it uses."""
        bad, counted = (rate.replace("$window", "5m") for rate in (self.bad_rate, self.all_rate))
        rates = [(self.bad_rule, f"{bad}\nor\n0 * {counted}"), (self.all_rule, counted)]
        return rates + [(self.ratio_rule(window), self.ratio(window)) for window in WINDOWS]


@dataclass(frozen=True)
class Objectives:
    """All objectives. The bound on the time to the first token must be one of its histogram's bucket bounds."""

    availability: float = 0.999
    first_token_seconds: float = 2.5
    first_token_share: float = 0.95

    @property
    def answered(self) -> Objective:
        """Make the objective that requests are answered."""
        scope = Scope(window="$window")
        return Objective(
            name="availability",
            title="Availability",
            bad="requests that the service failed",
            target=self.availability,
            bad_rate=scope.rate(m.REQUESTS, "model", outcome=FAILURES),
            all_rate=scope.rate(m.REQUESTS, "model", outcome=COUNTED),
        )

    @property
    def first_token(self) -> Objective:
        """Make the objective that streams begin soon."""
        scope = Scope(window="$window")
        seen = scope.observed(m.FIRST_TOKEN_SECONDS, "model")
        return Objective(
            name="first_token",
            title="Time to first token",
            bad=f"streams whose first token took more than {self.first_token_seconds:g} s",
            target=self.first_token_share,
            bad_rate=f"{seen} - {scope.within(m.FIRST_TOKEN_SECONDS, self.first_token_seconds, 'model')}",
            all_rate=seen,
        )

    @property
    def all(self) -> tuple[Objective, ...]:
        """List all objectives."""
        return (self.answered, self.first_token)
