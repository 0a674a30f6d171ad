"""Declare the metrics of shapes: what their controller has told last, of models with `reshape`."""

from typing import Final

from observability.metrics.metric import Metric

CONTROLLER_UP: Final = Metric(
    "reshape_controller_up", "gauge", "1 where the controller of shapes has told its state lately, else 0."
)
CHANGES: Final = Metric(
    "reshape_changes_total",
    "counter",
    "Changes of shapes that were done or failed, and operators' orders that were refused.",
    ("model", "outcome"),
)
CHANGE_SECONDS: Final = Metric(
    "reshape_change_seconds_total", "counter", "Time that the changes took which were done.", ("model",), "s"
)
GROUP_REPLICAS: Final = Metric(
    "reshape_group_replicas", "gauge", "Replicas that serve in a host group, by TP degree.", ("model", "group", "width")
)
GROUP_BLOCKED: Final = Metric(
    "reshape_group_blocked", "gauge", "1 where something forbids a change of the group now, else 0.", ("model", "group")
)
ADVISED: Final = Metric(
    "reshape_advised", "gauge", "1 where another shape would be better and is only told, else 0.", ("model",)
)
EVENTS_LOST: Final = Metric(
    "reshape_events_lost_total", "counter", "Events of shapes that no webhook took, since the controller began."
)

#: All of them, in the order in which they are exposed.
METRICS: Final = (CONTROLLER_UP, CHANGES, CHANGE_SECONDS, GROUP_REPLICAS, GROUP_BLOCKED, ADVISED, EVENTS_LOST)
