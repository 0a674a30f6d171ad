"""The panels of shapes that change, on the dashboard of replicas."""

from observability.metrics import reshape_declarations as m
from tools.dashboards.dashboard import CHOSEN
from tools.dashboards.panels import Panel, Query, lines


def shape_panels() -> tuple[Panel, ...]:
    """Make the panels."""
    shown = CHOSEN.over("$__range")
    return (
        lines(
            "Replicas of host groups",
            "Those that serve, by TP degree.",
            [Query(CHOSEN.now(m.GROUP_REPLICAS, "model", "group", "width"), "{{group}} TP{{width}} ({{model}})")],
            "short",
        ),
        lines(
            "Changes of shape",
            "Since the beginning of the time that is shown: done, failed, orders that were refused, and ends that no "
            "webhook took.",
            [
                Query(shown.increase(m.CHANGES, "model", "outcome"), "{{outcome}} ({{model}})"),
                Query(shown.increase(m.EVENTS_LOST), "not taken"),
            ],
            "short",
        ),
        lines(
            "Time of a change",
            "The mean of those that were done.",
            [Query(f"{shown.increase(m.CHANGE_SECONDS)} / {shown.increase(m.CHANGES, outcome='done')}", "mean")],
            "s",
        ),
        lines(
            "Groups that stay as they are",
            "1 where something forbids a change now; `penstock reshape status` says what.",
            [Query(CHOSEN.now(m.GROUP_BLOCKED, "model", "group", how="max"), "{{group}} ({{model}})")],
            "short",
        ),
        lines(
            "Advised",
            "1 where another shape would be better, and is only told.",
            [Query(CHOSEN.now(m.ADVISED, "model", how="max"), "{{model}}")],
            "short",
        ),
        lines(
            "Controller",
            "1 while the controller of shapes tells its state; 0: shapes stay as they are.",
            [Query(CHOSEN.now(m.CONTROLLER_UP, how="min"), "controller")],
            "short",
        ),
    )
