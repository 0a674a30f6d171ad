"""The scaling dashboard: what is wanted and what runs, why, what it costs, and how good the forecast was."""

from typing import Final

from observability.metrics import controller_declarations as controller
from observability.metrics import declarations as m
from tools.dashboards.dashboard import CHOSEN, Dashboard, Section, Variable
from tools.dashboards.panels import BLUE, GREEN, GREY, PURPLE, RED, YELLOW, Panel, Query, lines, stat, steps

UID: Final = "penstock-scaling"
_MODEL: Final = Variable("model", "Model", controller.SCALING_WANTED)
_POOL: Final = Variable("pool", "Pool", controller.SCALING_WANTED, ("model",))
_STEP_COLORS: Final = {"allocate": GREY, "process": BLUE, "load": PURPLE, "warm_up": YELLOW}
_CHANGE_COLORS: Final = {"up": GREEN, "down": BLUE, "same": GREY}
_NAMED: Final = "{{pool}} ({{model}})"


def scaling() -> Dashboard:
    """Make the scaling dashboard."""
    return Dashboard(
        uid=UID,
        title="Penstock / Scaling",
        description="Pools that scale: what is wanted and what runs, why, what it costs, and the forecast.",
        variables=(_MODEL, _POOL),
        sections=(
            Section("Now", _now()),
            Section("Replicas", _replicas()),
            Section("Demand and cost", _demand()),
            Section("Decisions and launchers", _decisions()),
        ),
    )


def _now() -> tuple[Panel, ...]:
    return (
        stat("Wanted", "Replicas that shall run.", CHOSEN.now(controller.SCALING_WANTED), "short", decimals=0),
        stat("Ready", "Replicas that serve.", CHOSEN.now(controller.SCALING_READY), "short", decimals=0),
        stat(
            "Starting",
            "Replicas that were started and do not serve yet.",
            CHOSEN.now(controller.SCALING_STARTING),
            "short",
            decimals=0,
        ),
        stat("Stopping", "Replicas that drain or end.", CHOSEN.now(controller.SCALING_STOPPING), "short", decimals=0),
        stat(
            "Costs now",
            "What the replicas cost in an hour that run, start and stop, of models whose prices are all known.",
            CHOSEN.now(controller.SCALING_COST),
            "currencyUSD",
        ),
        stat(
            "Worst SLO ratio",
            "Observed p95 over its target, the worst of TTFT and TPOT of any model: over 1 the target is missed.",
            CHOSEN.now(controller.SCALING_SLO, how="max"),
            "short",
            thresholds=steps((0.9, YELLOW), (1, RED)),
            decimals=2,
        ),
        stat(
            "Controller",
            "1 while the controller tells its state; 0: nothing is started or stopped.",
            CHOSEN.now(controller.SCALING_CONTROLLER_UP, how="min"),
            "short",
            thresholds=steps((1, GREEN), base=RED),
            decimals=0,
        ),
        stat(
            "Launchers failing",
            "Pools whose launcher cannot do what is asked of it.",
            CHOSEN.now(controller.SCALING_LAUNCHER_FAILING),
            "short",
            thresholds=steps((1, RED)),
            decimals=0,
        ),
    )


def _replicas() -> tuple[Panel, ...]:
    by = ("model", "pool")
    return (
        lines(
            "Wanted, needed, ready",
            "`needed` is what the load alone asks for; `wanted` keeps to bounds, budgets and cooldowns.",
            [
                Query(CHOSEN.now(controller.SCALING_WANTED, *by), f"wanted {_NAMED}"),
                Query(CHOSEN.now(controller.SCALING_NEEDED, *by), f"needed {_NAMED}"),
                Query(CHOSEN.now(controller.SCALING_READY, *by), f"ready {_NAMED}"),
            ],
            "short",
            width=12,
        ),
        lines(
            "Starting, by step",
            "`allocate` seeks a machine, `process` begins, `load` reads weights, `warm_up` prepares to serve.",
            [Query(CHOSEN.now(controller.SCALING_STARTING, "step"), "{{step}}")],
            "short",
            stacked=True,
            colors=_STEP_COLORS,
            width=12,
        ),
        lines(
            "Bounds",
            "The fewest and the most replicas that may be wanted.",
            [
                Query(CHOSEN.now(controller.SCALING_MIN, *by), f"min {_NAMED}"),
                Query(CHOSEN.now(controller.SCALING_MAX, *by), f"max {_NAMED}"),
            ],
            "short",
            width=6,
        ),
        lines(
            "Spot replicas",
            "Replicas on preemptible capacity that serve.",
            [Query(CHOSEN.now(controller.SCALING_SPOT, *by), _NAMED)],
            "short",
            width=6,
        ),
        lines(
            "Start-up",
            "Median of the last starts, from the order until the replica serves.",
            [Query(CHOSEN.now(controller.SCALING_STARTUP, *by, how="max"), _NAMED)],
            "s",
            width=6,
        ),
        lines(
            "Start-up, by step",
            "What each step takes, as the replicas that serve have measured it; the longest of all pools.",
            [Query(CHOSEN.now(controller.SCALING_START_STEP, "step", how="max"), "{{step}}")],
            "s",
            stacked=True,
            colors=_STEP_COLORS,
            width=6,
        ),
    )


def _demand() -> tuple[Panel, ...]:
    ahead = CHOSEN.series(controller.SCALING_FORECAST, ahead="15m", bound="mean")
    upper = CHOSEN.series(controller.SCALING_FORECAST, ahead="15m", bound="upper")
    return (
        lines(
            "Forecast and truth",
            "The requests that came, what was expected of this moment 15 minutes before, and its upper bound.",
            [
                Query(CHOSEN.now(controller.SCALING_DEMAND, "model"), "came, {{model}}"),
                Query(f"sum by (model) ({ahead} offset 15m)", "expected, {{model}}"),
                Query(f"sum by (model) ({upper} offset 15m)", "upper bound, {{model}}"),
            ],
            "reqps",
            width=12,
        ),
        lines(
            "What is expected",
            "Requests a second that are expected 5 and 15 minutes from now.",
            [Query(CHOSEN.now(controller.SCALING_FORECAST, "model", "ahead", bound="mean"), "in {{ahead}}, {{model}}")],
            "reqps",
            width=12,
        ),
        lines(
            "Requests under way",
            "By model, waiting ones included, and those that wait: a model at zero is here, too.",
            [
                Query(CHOSEN.now(m.MODEL_IN_FLIGHT, "model"), "under way, {{model}}"),
                Query(CHOSEN.now(m.QUEUE_DEPTH, "model"), "waiting, {{model}}"),
            ],
            "short",
        ),
        lines(
            "SLO ratio",
            "Observed p95 over its target: over 1 the target is missed.",
            [Query(CHOSEN.now(controller.SCALING_SLO, "model", "of", how="max"), "{{of}}, {{model}}")],
            "short",
            thresholds=steps((1, RED)),
        ),
        lines(
            "Cost an hour",
            "What runs, what is wanted, and the budget, of models whose prices are known.",
            [
                Query(CHOSEN.now(controller.SCALING_COST, "model"), "runs, {{model}}"),
                Query(CHOSEN.now(controller.SCALING_WANTED_COST, "model"), "wanted, {{model}}"),
                Query(CHOSEN.now(controller.SCALING_BUDGET, "model"), "budget, {{model}}"),
            ],
            "currencyUSD",
        ),
    )


def _decisions() -> tuple[Panel, ...]:
    return (
        lines(
            "Decisions",
            "By what they changed. `penstock scale explain` has the reasons of the last ones.",
            [Query(CHOSEN.rate(controller.SCALING_DECISIONS, "change"), "{{change}}")],
            "ops",
            stacked=True,
            colors=_CHANGE_COLORS,
        ),
        lines(
            "Launchers' errors",
            "Calls of launchers that failed, and starts.",
            [Query(CHOSEN.rate(controller.SCALING_LAUNCHER_ERRORS, "model", "pool"), _NAMED)],
            "ops",
        ),
        lines(
            "Controllers",
            "How often another process became the controller in the last hour, and whose decisions are followed.",
            [
                Query(f"max(changes({CHOSEN.series(controller.SCALING_CONTROLLER_SINCE)}[1h]))", "changes"),
                Query(CHOSEN.now(controller.SCALING_ACTS, "model", how="min"), "acts, {{model}}"),
            ],
            "short",
        ),
    )
