"""The section `drift` of a model."""

from typing import Annotated

from msgspec import Meta

from gateway.config.base import Record
from observability.drift.reference import FALSE_ALARMS


class DriftSettings(Record, frozen=True, kw_only=True):
    """Drift of requests and answers, by lengths, languages, tools, tenants, refusals and finish reasons: the
    last hour and the last six are compared with a reference.
    """

    reference_days: Annotated[
        int,
        Meta(
            ge=4,
            le=28,
            description="Length of the reference, from the first request on or from `penstock drift reset`. Whole "
            "weeks have each day of the week.",
        ),
    ] = 7
    false_alarms: Annotated[
        float,
        Meta(
            ge=1e-7,
            le=0.05,
            description="Probability that a window is told as drifted whose traffic is like the reference's, over all "
            "histograms together.",
        ),
    ] = FALSE_ALARMS
