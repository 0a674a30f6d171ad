"""Drift as the command line and the admin API show it."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from gateway.config.base import Record
from observability.drift.features import Measure, Side


class WindowView(Record, frozen=True, kw_only=True):
    """The last window of one width, beside the reference at the same time of the day."""

    hours: int
    requests: int
    distance: float
    threshold: Annotated[float, Meta(description="The distance from which on it has drifted, for so many requests.")]
    drifted: bool


class HistogramView(Record, frozen=True, kw_only=True):
    """One histogram and its windows."""

    of: Annotated[
        str,
        Meta(description="`prompt_tokens`, `language`, `tools`, `tenants`, `answer_tokens`, `refusals` or `finish`."),
    ]
    measure: Annotated[Measure, Meta(description="`ks`: Kolmogorov-Smirnov; `psi`: population stability index.")]
    windows: Annotated[
        Sequence[WindowView], Meta(description="By width; without those that have too few requests to be judged.")
    ] = ()
    drifted: bool = False
    change: Annotated[str, Meta(description="What has moved most, in the widest window that has drifted.")] = ""


class SubjectView(Record, frozen=True, kw_only=True):
    """One subject of drift with a reference of its own: a model's requests, or one version's answers."""

    side: Side
    version: Annotated[str, Meta(description="Empty for what clients send, and for a version without a name.")] = ""
    since: Annotated[float, Meta(description="When its reference begins, in seconds since 1970.")]
    until: Annotated[float, Meta(description="When its reference ends, or has ended.")]
    state: Annotated[
        Literal["gathering", "compared"],
        Meta(description="`gathering`: the reference is not complete; `compared`: windows are compared with it."),
    ]
    histograms: Sequence[HistogramView] = ()


class DriftModelView(Record, frozen=True, kw_only=True):
    """A model with drift."""

    object: Literal["drift"] = "drift"
    model: str
    false_alarms: Annotated[
        float, Meta(description="Probability that a window is told as drifted whose traffic has not changed.")
    ]
    subjects: Sequence[SubjectView] = ()

    @property
    def drifted(self) -> bool:
        """Whether any histogram has drifted."""
        return any(one.drifted for subject in self.subjects for one in subject.histograms)


class DriftView(Record, frozen=True, kw_only=True):
    """All models with drift."""

    at: Annotated[float, Meta(description="The end of the newest window, in seconds since 1970.")]
    models: Sequence[DriftModelView]
