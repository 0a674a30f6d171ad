"""Closed sets of labels' values: their colours on every dashboard, and which ones count as failures."""

from typing import Final

from observability.outcome import FAILED, Outcome
from tools.dashboards.panels import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, YELLOW

OUTCOME_COLORS: Final = {
    outcome.value: color
    for outcome, color in {
        Outcome.OK: GREEN,
        Outcome.CUT: "light-green",
        Outcome.FILTERED: PURPLE,
        Outcome.INVALID: GREY,
        Outcome.DENIED: "dark-blue",
        Outcome.LIMITED: BLUE,
        Outcome.CLIENT_GONE: "light-blue",
        Outcome.DEFERRED: "light-yellow",
        Outcome.SHED: YELLOW,
        Outcome.TIMEOUT: ORANGE,
        Outcome.REPLICA_ERROR: RED,
        Outcome.STORE_ERROR: "dark-red",
        Outcome.INTERNAL_ERROR: "dark-purple",
    }.items()
}
#: Outcomes that say nothing about the service: the client's own doing, and what takes only the room that others leave.
NOT_COUNTED: Final = frozenset(
    (Outcome.INVALID, Outcome.DENIED, Outcome.LIMITED, Outcome.CLIENT_GONE, Outcome.DEFERRED)
)
FAILURES: Final = tuple(sorted(outcome.value for outcome in FAILED))
COUNTED: Final = tuple(sorted(outcome.value for outcome in Outcome if outcome not in NOT_COUNTED))

#: States of replicas, from the best to the worst.
STATE_COLORS: Final = {
    "ready": GREEN,
    "returning": "light-green",
    "parked": "light-purple",
    "draining": BLUE,
    "drained": "light-blue",
    "probing": YELLOW,
    "connecting": ORANGE,
    "refused": PURPLE,
    "wedged": "dark-red",
    "ejected": RED,
}
#: How replicas stand in their host groups.
PLACE_COLORS: Final = {"serving": GREEN, "parked": "light-purple", "prepared": YELLOW, "changing": ORANGE}
ACTION_COLORS: Final = {"flag": YELLOW, "redact": BLUE, "block": RED, "failed": "dark-purple"}
TOKEN_COLORS: Final = {
    "input": BLUE,
    "cached": "light-blue",
    "output": GREEN,
    "reasoning": PURPLE,
    "rejected": RED,
}
#: Counters of lost records, by their names in the metrics. The log leaves lines out by design.
JOURNAL: Final = "journal"
LOG: Final = "log"
