"""The metrics of drift, from what the store has counted."""

from typing import Final

from gateway.rollouts.drift.drift_view import DriftView
from observability.exposition import Family
from observability.metrics import controller_declarations as declared
from observability.metrics.metric import Metric
from observability.metrics.names import label

_METRICS: Final = (
    declared.DRIFT_COMPARED,
    declared.DRIFTED,
    declared.DRIFT_DISTANCE,
    declared.DRIFT_THRESHOLD,
)


def drift_families(view: DriftView) -> list[Family]:
    """Make the metrics; a subject whose reference is being gathered has only that it is not compared."""
    families = {metric: Family(metric.name, metric.kind, metric.help) for metric in _METRICS}

    def add(metric: Metric, value: float, *labels: str) -> None:
        families[metric].add(float(value), **dict(zip(metric.labels, map(label, labels), strict=True)))

    for model in view.models:
        for subject in model.subjects:
            add(declared.DRIFT_COMPARED, subject.state == "compared", model.model, subject.version, subject.side)
            for histogram in subject.histograms:
                add(declared.DRIFTED, histogram.drifted, model.model, subject.version, histogram.of)
                for window in histogram.windows:
                    of = (model.model, subject.version, histogram.of, f"{window.hours}h")
                    add(declared.DRIFT_DISTANCE, window.distance, *of)
                    add(declared.DRIFT_THRESHOLD, window.threshold, *of)
    return [family for family in families.values() if family.samples]
