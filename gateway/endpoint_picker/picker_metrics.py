"""The picker's counts, and its metrics page."""

import enum
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable

from gateway.endpoint_picker.picked_model import PickedModels
from observability.exposition import Family, Observed, exposition
from observability.metrics import picker_declarations as declared
from observability.metrics.metric import Metric


class Outcome(enum.Enum):
    """The outcome of a request, a label of the metric."""

    PICKED = "picked"
    SHED = "shed"
    NO_ENDPOINT = "no_endpoint"
    TOO_LARGE = "too_large"
    #: The request is at fault.
    REFUSED = "refused"
    #: The picker is.
    FAILED = "failed"
    #: The proxy left before a decision.
    LEFT = "left"


class PickerMetrics:
    """One process's counts. `now` counts seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.streams = 0
        self.leads = False
        self._outcomes = Counter(dict.fromkeys(Outcome, 0))
        self._buckets = [0] * (len(declared.PICK_SECONDS.bounds) + 1)
        self._seconds = 0.0

    def count(self, outcome: Outcome) -> None:
        """Count a request."""
        self._outcomes[outcome] += 1

    def picked(self, seconds: float) -> None:
        """Note how long a pick took."""
        self._buckets[bisect_left(declared.PICK_SECONDS.bounds, seconds)] += 1
        self._seconds += seconds

    def page(self, models: PickedModels) -> str:
        """Write the page in Prometheus' text format."""
        requests, pick = _family(declared.REQUESTS), _family(declared.PICK_SECONDS)
        for outcome, number in self._outcomes.items():
            requests.add(float(number), outcome=outcome.value)
        pick.observed.append(Observed({}, self._buckets, self._seconds))
        streams, leader = _family(declared.STREAMS), _family(declared.LEADER)
        streams.add(float(self.streams))
        leader.add(float(self.leads))
        waiting, ready, endpoints = map(_family, (declared.WAITING, declared.READY, declared.ENDPOINTS))
        prefilled = _family(declared.PREFILLED)
        for model in models.all:
            waiting.add(float(model.queue.waiting), model=model.name)
            ready.add(float(model.fleet.ready_replicas), model=model.name)
            endpoints.add(float(len(model.fleet)), model=model.name)
            prefilled.add(float(model.prefill.requests), model=model.name)
        return exposition([requests, prefilled, pick, streams, waiting, ready, endpoints, leader])


def _family(metric: Metric) -> Family:
    return Family(metric.name, metric.kind, metric.help, bounds=metric.bounds)
