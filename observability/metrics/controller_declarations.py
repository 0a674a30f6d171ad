"""Declare the metrics of what controllers decide and of how traffic drifts, which admin processes expose.

They are part of those of `declarations.py`, and labels mean the same.
"""

from typing import Final

from observability.metrics.metric import Metric

_POOL: Final = ("model", "pool")

# From what the controller of pools that scale has told last.
SCALING_CONTROLLER_UP: Final = Metric(
    "scaling_controller_up", "gauge", "1 where the controller of pools that scale has told its state lately, else 0."
)
SCALING_CONTROLLER_SINCE: Final = Metric(
    "scaling_controller_since_seconds",
    "gauge",
    "When the process that is the controller took over, in seconds since 1970.",
    (),
    "s",
)
SCALING_ACTS: Final = Metric(
    "scaling_acts", "gauge", "1 where decisions are followed; 0: the model is paused, or only advised.", ("model",)
)
SCALING_WANTED: Final = Metric("scaling_wanted_replicas", "gauge", "Replicas that shall run.", _POOL)
SCALING_NEEDED: Final = Metric("scaling_needed_replicas", "gauge", "Replicas that the load alone asks for.", _POOL)
SCALING_READY: Final = Metric("scaling_ready_replicas", "gauge", "Replicas that serve.", _POOL)
SCALING_STARTING: Final = Metric(
    "scaling_starting_replicas", "gauge", "Replicas that are being started, by their step.", (*_POOL, "step")
)
SCALING_STOPPING: Final = Metric("scaling_stopping_replicas", "gauge", "Replicas that drain or end.", _POOL)
SCALING_MIN: Final = Metric("scaling_min_replicas", "gauge", "The fewest that may be wanted.", _POOL)
SCALING_MAX: Final = Metric("scaling_max_replicas", "gauge", "The most that may be wanted.", _POOL)
SCALING_SPOT: Final = Metric("scaling_spot_replicas", "gauge", "Replicas on preemptible capacity that serve.", _POOL)
SCALING_STARTUP: Final = Metric(
    "scaling_startup_seconds", "gauge", "Median of the last starts, from the order until it serves.", _POOL, "s"
)
SCALING_START_STEP: Final = Metric(
    "scaling_start_step_seconds",
    "gauge",
    "Seconds of each step of a start, the median of the replicas that serve.",
    (*_POOL, "step"),
    "s",
)
SCALING_LAUNCHER_FAILING: Final = Metric(
    "scaling_launcher_failing", "gauge", "1 where the launcher cannot do what is asked of it now.", _POOL
)
SCALING_LAUNCHER_ERRORS: Final = Metric(
    "scaling_launcher_errors_total", "counter", "Calls of the launcher that failed, and starts.", _POOL
)
SCALING_DECISIONS: Final = Metric(
    "scaling_decisions_total", "counter", "Decisions, by what they changed: up, down or same.", ("model", "change")
)
SCALING_COST: Final = Metric(
    "scaling_cost_usd_per_hour", "gauge", "What the replicas cost that run, start and stop.", ("model",), "USD"
)
SCALING_WANTED_COST: Final = Metric(
    "scaling_wanted_cost_usd_per_hour", "gauge", "What the wanted replicas cost.", ("model",), "USD"
)
SCALING_BUDGET: Final = Metric("scaling_budget_usd_per_hour", "gauge", "The budget.", ("model",), "USD")
SCALING_DEMAND: Final = Metric(
    "scaling_demand_requests_per_second", "gauge", "Requests that came in the last half minute.", ("model",)
)
SCALING_FORECAST: Final = Metric(
    "scaling_forecast_requests_per_second",
    "gauge",
    "Requests a second that are expected so many minutes ahead, and an upper bound.",
    ("model", "ahead", "bound"),
)
SCALING_SLO: Final = Metric(
    "scaling_slo_ratio",
    "gauge",
    "Observed p95 over its target, of ttft and tpot; 0: nothing was seen.",
    ("model", "of"),
)

# From what drift has counted in the store; version - is of what clients send, whichever version answers.
DRIFT_COMPARED: Final = Metric(
    "drift_compared",
    "gauge",
    "1 where windows are compared with a reference, 0 while the reference is gathered.",
    ("model", "version", "side"),
)
DRIFTED: Final = Metric(
    "drifted",
    "gauge",
    "1 where any of the last windows (1h, 6h) of a histogram is not like its reference, else 0.",
    ("model", "version", "of"),
)
DRIFT_DISTANCE: Final = Metric(
    "drift_distance",
    "gauge",
    "How far the last window of a histogram is from its reference: of lengths by Kolmogorov-Smirnov, of all else by "
    "the population stability index.",
    ("model", "version", "of", "window"),
)
DRIFT_THRESHOLD: Final = Metric(
    "drift_threshold",
    "gauge",
    "The distance from which on the last window has drifted, for so many requests and that reference.",
    ("model", "version", "of", "window"),
)

# From what the controller of rollouts has told last, of models that go by version.
ROLLOUT_CONTROLLER_UP: Final = Metric(
    "rollout_controller_up", "gauge", "1 where the controller of rollouts has told its state lately, else 0."
)
ROLLOUT_CURRENT: Final = Metric(
    "rollout_current",
    "gauge",
    "1 for the rollout under way, or the last one, with its versions.",
    ("model", "stable", "candidate", "plan"),
)
ROLLOUT_PHASE: Final = Metric(
    "rollout_phase", "gauge", "1 for the phase that the model's rollout is in, 0 for others.", ("model", "phase")
)
ROLLOUT_SINCE: Final = Metric(
    "rollout_step_since_seconds",
    "gauge",
    "When its phase or stage began, in seconds since 1970, later by as long as it was paused.",
    ("model",),
    "s",
)
ROLLOUT_PAUSED: Final = Metric("rollout_paused", "gauge", "1 while an operator has paused it, else 0.", ("model",))
ROLLOUT_SHARE: Final = Metric("rollout_share_ratio", "gauge", "The candidate's share of requests.", ("model",))
ROLLOUT_STAGE: Final = Metric("rollout_stage", "gauge", "Number of its stage, from 1; 0: no stage.", ("model",))
ROLLOUT_REQUESTS: Final = Metric(
    "rollout_stage_requests", "gauge", "Requests of the candidate that were measured in its stage.", ("model",)
)
ROLLOUT_VERDICT: Final = Metric(
    "rollout_verdict", "gauge", "1 for the last verdict of its stage, 0 for others.", ("model", "verdict")
)
ROLLOUT_COPIES: Final = Metric(
    "rollout_copies",
    "gauge",
    "Copies of requests in the last shadow: same, alike, different, failed at the candidate, or left out and why.",
    ("model", "outcome"),
)
ROLLOUTS: Final = Metric(
    "rollouts_total",
    "counter",
    "Rollouts that have ended: promoted, reported (a shadow), or rolled_back with why.",
    ("model", "outcome", "cause"),
)
ROLLOUT_EVENTS_LOST: Final = Metric(
    "rollout_events_lost_total", "counter", "Events that no webhook took, since the controller began."
)

#: All of them, in the order in which they are exposed.
METRICS: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
