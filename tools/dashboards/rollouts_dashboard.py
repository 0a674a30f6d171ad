"""The rollouts dashboard: how far models' changes of version are, how they ended, and drift."""

from typing import Final

from observability.metrics import controller_declarations as controller
from observability.metrics import declarations as m
from tools.dashboards.dashboard import CHOSEN, Dashboard, Section, Variable
from tools.dashboards.panels import BLUE, GREEN, GREY, PURPLE, RED, YELLOW, Panel, Query, lines, stat, steps

UID: Final = "penstock-rollouts"
_MODEL: Final = Variable("model", "Model", m.MODEL_IN_FLIGHT)
_PHASE_COLORS: Final = {
    "preparing": GREY,
    "warming": YELLOW,
    "smoke": YELLOW,
    "golden": YELLOW,
    "shadowing": PURPLE,
    "shifting": BLUE,
    "testing": BLUE,
    "holding": BLUE,
    "promoting": GREEN,
    "draining": GREEN,
    "done": GREEN,
    "rolling_back": RED,
    "rolled_back": RED,
}
_VERDICT_COLORS: Final = {"better": GREEN, "as_good": BLUE, "inconclusive": GREY, "worse": RED}
_DRIFT: Final = "{{of}} ({{window}}), {{model}} {{version}}"


def rollouts() -> Dashboard:
    """Make the rollouts dashboard."""
    return Dashboard(
        uid=UID,
        title="Penstock / Rollouts",
        description="Changes of models' versions: stages, shares, verdicts, outcomes; drift of requests and answers.",
        variables=(_MODEL,),
        sections=(Section("Now", _now()), Section("Rollouts", _course()), Section("Drift", _drift())),
    )


def _now() -> tuple[Panel, ...]:
    return (
        stat(
            "Candidates' share",
            "The largest of any model.",
            CHOSEN.now(controller.ROLLOUT_SHARE, how="max"),
            "percentunit",
            width=5,
        ),
        stat(
            "Rolled back",
            "In the time that is shown; those that an operator aborted are among them.",
            CHOSEN.over("$__range").increase(controller.ROLLOUTS, outcome="rolled_back"),
            "short",
            thresholds=steps((1, YELLOW)),
            decimals=0,
            width=5,
        ),
        stat(
            "Promoted",
            "In the time that is shown.",
            CHOSEN.over("$__range").increase(controller.ROLLOUTS, outcome="promoted"),
            "short",
            decimals=0,
            width=5,
        ),
        stat(
            "Controller",
            "1 while the controller tells its state; 0: rollouts stay as they are, and nothing is rolled back.",
            CHOSEN.now(controller.ROLLOUT_CONTROLLER_UP, how="min"),
            "short",
            thresholds=steps((1, GREEN), base=RED),
            decimals=0,
            width=5,
        ),
        stat(
            "Drifted",
            "Histograms of which a window is not like its reference.",
            CHOSEN.now(controller.DRIFTED),
            "short",
            thresholds=steps((1, YELLOW)),
            decimals=0,
            width=4,
        ),
    )


def _course() -> tuple[Panel, ...]:
    return (
        lines(
            "Candidate's share",
            "Of the requests of each model.",
            [Query(CHOSEN.now(controller.ROLLOUT_SHARE, "model", how="max"), "{{model}}")],
            "percentunit",
            width=12,
        ),
        lines(
            "Phase",
            "1 for the phase that a rollout is in.",
            [
                Query(
                    f"{CHOSEN.now(controller.ROLLOUT_PHASE, 'model', 'phase', how='max')} == 1", "{{phase}}, {{model}}"
                )
            ],
            "short",
            colors=_PHASE_COLORS,
            width=12,
        ),
        lines(
            "Verdict",
            "What the candidate is beside the stable version, by the last look; 1 for the one that holds.",
            [
                Query(
                    f"{CHOSEN.now(controller.ROLLOUT_VERDICT, 'model', 'verdict', how='max')} == 1",
                    "{{verdict}}, {{model}}",
                )
            ],
            "short",
            colors=_VERDICT_COLORS,
        ),
        lines(
            "Requests in the stage",
            "Of the candidate, that were measured since its stage began.",
            [Query(CHOSEN.now(controller.ROLLOUT_REQUESTS, "model", how="max"), "{{model}}")],
            "short",
        ),
        lines(
            "Time in the stage",
            "Since the phase or stage began, pauses left out.",
            [Query(f"time() - {CHOSEN.now(controller.ROLLOUT_SINCE, 'model', how='max')}", "{{model}}")],
            "s",
        ),
        lines(
            "Ends",
            "Rollouts that have ended, by how and why.",
            [Query(CHOSEN.increase(controller.ROLLOUTS, "outcome", "cause"), "{{outcome}} {{cause}}")],
            "short",
            stacked=True,
        ),
        lines(
            "Stage",
            "Number of the stage, from 1; 0: none.",
            [
                Query(CHOSEN.now(controller.ROLLOUT_STAGE, "model", how="max"), "{{model}}"),
                Query(CHOSEN.now(controller.ROLLOUT_PAUSED, "model", how="max"), "paused, {{model}}"),
            ],
            "short",
        ),
        lines(
            "Events that no webhook took",
            "They are told in `penstock rollout history` all the same.",
            [Query(CHOSEN.increase(controller.ROLLOUT_EVENTS_LOST), "lost")],
            "short",
        ),
        lines(
            "Copies",
            "Of the last shadow: what candidates' answers are beside the stable version's, and copies that were not "
            "made (away, bound, full, busy).",
            [Query(CHOSEN.now(controller.ROLLOUT_COPIES, "model", "outcome", how="max"), "{{outcome}}, {{model}}")],
            "short",
        ),
        lines(
            "Versions",
            "1 for the last rollout of each model.",
            [
                Query(
                    CHOSEN.now(controller.ROLLOUT_CURRENT, "model", "stable", "candidate", "plan", how="max"),
                    "{{model}}: {{stable}} to {{candidate}}, {{plan}}",
                )
            ],
            "short",
            width=16,
        ),
    )


def _drift() -> tuple[Panel, ...]:
    by = ("model", "version", "of", "window")
    distance = CHOSEN.now(controller.DRIFT_DISTANCE, *by, how="max")
    threshold = CHOSEN.now(controller.DRIFT_THRESHOLD, *by, how="max")
    return (
        lines(
            "Distance over its threshold",
            "Of the last hour and the last six: over 1 a window is unlike its reference. Version - is of what clients "
            "send.",
            [Query(f"{distance}\n/\n{threshold}", _DRIFT)],
            "short",
            thresholds=steps((1, RED)),
            width=16,
        ),
        lines(
            "Compared",
            "1 where windows are compared, 0 while a reference is gathered.",
            [
                Query(
                    CHOSEN.now(controller.DRIFT_COMPARED, "model", "version", "side", how="min"),
                    "{{side}} {{model}} {{version}}",
                )
            ],
            "short",
            width=8,
        ),
    )
