"""For each alert a course of the metrics that raises it, and one that does not, in promtool's notation."""

from dataclasses import dataclass

REQUESTS = 'penstock_requests_total{model="m", tenant="t", endpoint="chat", outcome="%s"}'
#: Stands for the minutes of the case.
END = "END"
FIRST = 'penstock_time_to_first_token_seconds_%s{model="m", pool="p"%s}'
REPLICA = '{model="m", pool="p", replica="p/0"}'
OTHER = '{model="m", pool="p", replica="p/1"}'


@dataclass(frozen=True)
class Case:
    """`bad` raises the alert by the minute `after`; `good` does not."""

    after: int
    bad: dict[str, str]
    good: dict[str, str]

    def series(self, *, bad: bool) -> list[dict[str, str]]:
        """In the form of promtool's tests."""
        chosen = self.bad if bad else self.good
        return [{"series": name, "values": values.replace(END, str(self.after))} for name, values in chosen.items()]


def steady(rate: float) -> str:
    """A counter that gains so much a minute to the end."""
    return f"0+{rate:g}x{END}"


def always(value: float) -> str:
    """A gauge that stays."""
    return f"{value:g}x{END}"


def requests(ok: float, failed: float) -> dict[str, str]:
    return {REQUESTS % "ok": steady(ok), REQUESTS % "replica_error": steady(failed), REQUESTS % "limited": steady(1000)}


def streams(soon: float, late: float) -> dict[str, str]:
    return {
        FIRST % ("bucket", ', le="2.5"'): steady(soon),
        FIRST % ("bucket", ', le="+Inf"'): steady(soon + late),
        FIRST % ("count", ""): steady(soon + late),
    }


def histogram(name: str, fast: float, slow: float, bounds: tuple[float, float]) -> dict[str, str]:
    """Observations a minute below the first bound, and between the two."""
    low, high = bounds
    return {
        f'{name}_bucket{{le="{low:g}"}}': steady(fast),
        f'{name}_bucket{{le="{high:g}"}}': steady(fast + slow),
        f'{name}_bucket{{le="+Inf"}}': steady(fast + slow),
    }


def admissions(at_once: float, waited: float, shed: float) -> dict[str, str]:
    found = {"at_once": at_once, "waited": waited, "shed": shed}
    return {
        f'penstock_admissions_total{{model="m", tier="gold", result="{name}"}}': steady(rate)
        for name, rate in found.items()
        if rate
    }


def state(name: str, replica: str = REPLICA) -> str:
    return f'penstock_replica_state{replica[:-1]}, state="{name}"}}'


def place(name: str, replica: str = REPLICA) -> str:
    """How a replica stands in its host group."""
    return f'penstock_replica_group{replica[:-1]}, group="node-1", gpus="0-3", state="{name}"}}'


UP = "penstock_replica_up"
KV = "penstock_replica_kv_blocks"
SCALED = '{model="m", pool="p"}'
BUDGET = '{tenant="acme", scope="tenant", period="month"}'
VERDICTS = 'penstock_filter_verdicts_total{rule="judge", where="prompt", action="%s"}'
DROPPED = 'penstock_telemetry_dropped_total{sink="%s"}'
RESERVATIONS = 'penstock_reservations_total{result="%s"}'


ROLLED_BACK = 'penstock_rollouts_total{model="m", outcome="rolled_back", cause="%s"}'
DRIFTED = 'penstock_drifted{model="m", version="-", of="language"}'


def rollout(phase: str) -> dict[str, str]:
    """A rollout that has been in a phase since the beginning."""
    return {
        f'penstock_rollout_phase{{model="m", phase="{phase}"}}': always(1),
        'penstock_rollout_phase{model="m", phase="shifting"}': always(0),
        'penstock_rollout_step_since_seconds{model="m"}': always(0),
        'penstock_rollout_paused{model="m"}': always(0),
    }


def scaled(wanted: float, ready: float, acts: float = 1, slo: float = 0.5) -> dict[str, str]:
    """A pool of at most 6."""
    return {
        "penstock_scaling_wanted_replicas" + SCALED: always(wanted),
        "penstock_scaling_ready_replicas" + SCALED: always(ready),
        "penstock_scaling_max_replicas" + SCALED: always(6),
        'penstock_scaling_acts{model="m"}': always(acts),
        'penstock_scaling_slo_ratio{model="m", of="ttft"}': always(slo),
        'penstock_scaling_slo_ratio{model="m", of="tpot"}': always(0.1),
    }


CASES = {
    "AvailabilityBudgetBurnsFast": Case(30, requests(970, 30), requests(995, 5)),
    "AvailabilityBudgetBurnsSlowly": Case(45, requests(995, 5), requests(9995, 5)),
    "TimeToFirstTokenBudgetBurnsFast": Case(30, streams(20, 80), streams(90, 10)),
    "TimeToFirstTokenBudgetBurnsSlowly": Case(45, streams(80, 20), streams(99, 1)),
    "NoReplicaReady": Case(
        3,
        {UP + REPLICA: always(0), UP + OTHER: always(0), "penstock_scaling_wanted_replicas" + SCALED: always(1)},
        {UP + REPLICA: always(0), UP + OTHER: always(0), "penstock_scaling_wanted_replicas" + SCALED: always(0)},
    ),
    "ReplicaDown": Case(
        5,
        {UP + REPLICA: always(0), state("connecting"): always(1)},
        {UP + REPLICA: always(0), state("drained"): always(1)},
    ),
    "ReshapeControllerGone": Case(
        8, {"penstock_reshape_controller_up": always(0)}, {"penstock_reshape_controller_up": always(1)}
    ),
    "ReshapeEventsLost": Case(
        10, {"penstock_reshape_events_lost_total": "0x5 3x30"}, {"penstock_reshape_events_lost_total": always(3)}
    ),
    "HostGroupStaysInChange": Case(
        5,
        {place("changing"): always(1)},
        {place("serving"): always(1), place("changing"): always(0)},
    ),
    "HostGroupChangeFailed": Case(
        20,
        {f'penstock_replica_group_failed{REPLICA[:-1]}, group="node-1"}}': always(1)},
        {f'penstock_replica_group_failed{REPLICA[:-1]}, group="node-1"}}': always(0)},
    ),
    "ReplicaEjected": Case(
        4,
        {UP + REPLICA: always(0), state("ejected"): always(1)},
        {UP + REPLICA: always(1), state("ready"): always(1), state("ejected"): always(0)},
    ),
    "ReplicasEjectedOften": Case(
        50,
        {"penstock_replica_ejections_total" + REPLICA: "0+0x10 0+1x6 6+0x60"},
        {"penstock_replica_ejections_total" + REPLICA: "0+0x10 0+1x2 2+0x60"},
    ),
    "KvCacheNearlyFull": Case(
        15,
        {f"{KV}_used{REPLICA}": always(95), f"{KV}{REPLICA}": always(100)},
        {f"{KV}_used{REPLICA}": always(85), f"{KV}{REPLICA}": always(100)},
    ),
    "QueueGrows": Case(
        8,
        {'penstock_queue_depth{model="m"}': always(60), "penstock_replica_running" + REPLICA: always(100)},
        {'penstock_queue_depth{model="m"}': always(40), "penstock_replica_running" + REPLICA: always(100)},
    ),
    "MostRequestsWait": Case(20, admissions(40, 60, 0), admissions(60, 40, 0)),
    "Sheds": Case(10, admissions(90, 5, 5), admissions(1000, 5, 0)),
    "ScalingControllerGone": Case(
        3, {"penstock_scaling_controller_up": always(0)}, {"penstock_scaling_controller_up": always(1)}
    ),
    "ScalingWantedNotReached": Case(20, scaled(wanted=5, ready=4), scaled(wanted=5, ready=4, acts=0)),
    "ScalingLauncherFails": Case(
        8,
        {"penstock_scaling_launcher_failing" + SCALED: always(1)},
        {"penstock_scaling_launcher_failing" + SCALED: always(0)},
    ),
    "ScalingAtMaximum": Case(15, scaled(wanted=6, ready=6, slo=1.2), scaled(wanted=5, ready=5, slo=1.2)),
    "RolloutControllerGone": Case(
        8, {"penstock_rollout_controller_up": always(0)}, {"penstock_rollout_controller_up": always(1)}
    ),
    "RolledBack": Case(10, {ROLLED_BACK % "worse": "0x5 1x30"}, {ROLLED_BACK % "aborted": "0x5 1x30"}),
    "RolloutStuck": Case(80, rollout("warming"), rollout("done")),
    "RolloutEventsLost": Case(
        10, {"penstock_rollout_events_lost_total": "0x5 3x30"}, {"penstock_rollout_events_lost_total": always(3)}
    ),
    "Drifted": Case(40, {DRIFTED: always(1)}, {DRIFTED: always(0)}),
    "GatewayDown": Case(
        4,
        {'up{job="penstock", instance="gateway:8081"}': always(0)},
        {'up{job="penstock", instance="gateway:8081"}': always(1)},
    ),
    "WorkersRestart": Case(
        20,
        {"penstock_worker_restarts_total": "0x15 1x30"},
        {"penstock_worker_restarts_total": always(3)},
    ),
    "ConfigurationRefused": Case(
        4,
        {"penstock_config_last_reload_successful": always(0)},
        {"penstock_config_last_reload_successful": always(1)},
    ),
    "LoopLags": Case(
        12,
        histogram("penstock_loop_lag_seconds", 90, 10, (0.05, 0.1)),
        histogram("penstock_loop_lag_seconds", 1000, 0, (0.05, 0.1)),
    ),
    "StoreDown": Case(4, {"penstock_store_up": always(0)}, {"penstock_store_up": always(1)}),
    "ReservationsFail": Case(
        9,
        {RESERVATIONS % "granted": steady(900), RESERVATIONS % "failed_open": steady(100)},
        {RESERVATIONS % "granted": steady(900), RESERVATIONS % "refused": steady(100)},
    ),
    "StoreErrors": Case(12, {"penstock_store_errors_total": steady(60)}, {"penstock_store_errors_total": steady(1)}),
    "StoreSlow": Case(
        12,
        histogram("penstock_store_seconds", 90, 10, (0.1, 0.25)),
        histogram("penstock_store_seconds", 1000, 0, (0.1, 0.25)),
    ),
    "JournalFails": Case(
        6, {"penstock_journal_failures_total": "0x3 1x30"}, {"penstock_journal_failures_total": always(4)}
    ),
    "JournalLosesRecords": Case(
        6, {DROPPED % "journal": "0x3 9x30"}, {DROPPED % "journal": always(4), DROPPED % "traces": steady(6)}
    ),
    "TelemetryDropped": Case(
        15,
        {DROPPED % "traces": steady(6)},
        {DROPPED % "traces": always(6), DROPPED % "log": steady(6)},
    ),
    "BudgetNearlySpent": Case(
        2,
        {"penstock_budget_usd" + BUDGET: always(100), "penstock_budget_spent_usd" + BUDGET: always(95)},
        {"penstock_budget_usd" + BUDGET: always(100), "penstock_budget_spent_usd" + BUDGET: always(80)},
    ),
    "FilterFails": Case(
        10,
        {VERDICTS % "failed": steady(6), VERDICTS % "flag": steady(60)},
        {VERDICTS % "block": steady(6), VERDICTS % "flag": steady(60)},
    ),
}
