"""The workload of a study: a trace or synthetic requests, with recorded or drawn arrivals."""

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

from loadtest.simulation.arrivals import ARRIVALS
from loadtest.simulation.request_traces import read_trace
from loadtest.simulation.simulated_requests import TimedRequest, at_rate, bounded, native_rate, with_gaps
from loadtest.simulation.synthetic import Synthetic, synthetic

#: Default number of synthetic requests.
DEFAULT_REQUESTS = 3000


class WorkloadSpec(msgspec.Struct, frozen=True):
    """The spec of a workload; small, so that each process can make its own.

    `source` is a trace file or the parameters of synthetic requests. `requests` unset is all of the trace. `arrivals`
    is "trace" or one of ARRIVALS.
    """

    source: str | Synthetic
    requests: int | None = None
    arrivals: str = "trace"
    seed: int = 0

    def load(self) -> "Workload":
        """Read the trace or draw the requests. Raises TraceError."""
        if isinstance(self.source, Synthetic):
            requests = synthetic(self.source, self.requests or DEFAULT_REQUESTS, self.seed)
            native = None
        else:
            requests = read_trace(Path(self.source))
            if self.requests:
                requests = bounded(requests, self.requests)
            rate = native_rate(requests)
            native = rate if rate < float("inf") else None
        gaps = None
        if self.arrivals != "trace":
            gaps = ARRIVALS[self.arrivals](len(requests), random.Random(self.seed + 1))
        return Workload(requests, gaps, native)


class Workload:
    """Requests that can be run at any rate."""

    def __init__(
        self, requests: Sequence[TimedRequest], gaps: Sequence[float] | None = None, native: float | None = None
    ) -> None:
        """`gaps` (of mean 1) replace the requests' own arrivals; `native` is the rate of these, in requests/s."""
        self.requests = requests
        self.native = native
        self._gaps = gaps

    def at(self, rate: float) -> list[TimedRequest]:
        """Return the requests at `rate` per second."""
        if self._gaps is None:
            return at_rate(self.requests, rate)
        # The drawn gaps' mean is not exactly 1.
        scale = len(self._gaps) / sum(self._gaps) / rate
        return with_gaps(self.requests, [gap * scale for gap in self._gaps])
