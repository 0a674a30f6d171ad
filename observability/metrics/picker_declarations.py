"""Declare the endpoint picker's own metrics, which its process serves."""

from typing import Final

from observability.metrics.metric import Metric

#: Seconds from a request's last piece to its endpoint: a decision takes a millisecond, a wait may be long.
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

REQUESTS: Final = Metric("epp_requests_total", "counter", "Requests of proxies, by what became of them.", ("outcome",))
PREFILLED: Final = Metric(
    "epp_prefilled_requests_total", "counter", "Requests whose prompt another endpoint computes.", ("model",)
)
PICK_SECONDS: Final = Metric(
    "epp_pick_seconds",
    "histogram",
    "From a request's body to the endpoint picked for it, the wait for room included.",
    (),
    "s",
    _SECONDS,
)
STREAMS: Final = Metric("epp_streams", "gauge", "Requests whose streams are open.")
WAITING: Final = Metric("epp_waiting_requests", "gauge", "Requests that wait for room.", ("model",))
READY: Final = Metric("epp_ready_endpoints", "gauge", "Endpoints that take requests.", ("model",))
ENDPOINTS: Final = Metric("epp_endpoints", "gauge", "Endpoints that are known.", ("model",))
LEADER: Final = Metric("epp_leader", "gauge", "1 in the picker that serves, 0 in one that stands by.")
