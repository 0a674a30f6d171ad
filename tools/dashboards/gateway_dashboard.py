"""The gateway dashboard: its processes, its store, and the records it writes."""

from typing import Final

from observability.metrics import declarations as m
from tools.dashboards.dashboard import Dashboard, Section
from tools.dashboards.panels import GREEN, ORANGE, RED, YELLOW, Panel, Query, lines, stat, steps
from tools.dashboards.percentiles import percentiles, spread
from tools.dashboards.promql import WHOLE_RANGE, Scope

UID: Final = "penstock-gateway"
_ALL: Final = Scope()


def gateway() -> Dashboard:
    """Make the gateway dashboard."""
    return Dashboard(
        uid=UID,
        title="Penstock / Gateway",
        description="The gateway itself: workers, CPU and memory, its store, and what it writes down.",
        variables=(),
        sections=(
            Section("Now", _now()),
            Section("Processes", _processes()),
            Section("Store and limits", _store()),
            Section("What is written down", _records()),
        ),
    )


def _now() -> tuple[Panel, ...]:
    shown = _ALL.over(WHOLE_RANGE)
    bad = steps((1, RED))
    return (
        stat(
            "Workers",
            "Worker processes that live.",
            _ALL.now(m.WORKERS),
            "short",
            thresholds=steps((1, GREEN), base=RED),
            width=4,
        ),
        stat(
            "Restarts",
            "Workers that died and were restarted, over the time that is shown.",
            shown.increase(m.WORKER_RESTARTS),
            "short",
            thresholds=bad,
            decimals=0,
            instant=True,
            width=4,
        ),
        stat(
            "Store answers",
            "Whether the store answers.",
            _ALL.now(m.STORE_UP, how="min"),
            "bool_yes_no",
            thresholds=steps((1, GREEN), base=RED),
            width=4,
        ),
        stat(
            "Store errors",
            "Calls that failed, over the time that is shown.",
            shown.increase(m.STORE_ERRORS),
            "short",
            thresholds=bad,
            decimals=0,
            instant=True,
            width=4,
        ),
        stat(
            "Dropped",
            "What could not be written or sent, over the time that is shown.",
            shown.increase(m.TELEMETRY_DROPPED),
            "short",
            thresholds=bad,
            decimals=0,
            instant=True,
            width=4,
        ),
        stat(
            "Journal failures",
            "Writes to the audit journal that failed, over the time that is shown.",
            shown.increase(m.JOURNAL_FAILURES),
            "short",
            thresholds=bad,
            decimals=0,
            instant=True,
            width=4,
        ),
    )


def _processes() -> tuple[Panel, ...]:
    return (
        lines(
            "Requests in hand",
            "Requests that all workers have in hand, waiting ones included.",
            [Query(_ALL.now(m.IN_FLIGHT), "requests")],
            "short",
        ),
        lines(
            "CPU",
            "Cores in use; the workers' together.",
            [
                Query(_ALL.rate(m.PROCESS_CPU, "process"), "{{process}}"),
                Query(_ALL.now(m.WORKERS), "workers there are"),
            ],
            "suffix: cores",
        ),
        lines(
            "Memory",
            "Resident memory; the workers' together.",
            [Query(_ALL.now(m.PROCESS_RESIDENT, "process"), "{{process}}")],
            "bytes",
        ),
        percentiles(
            "Loop lag",
            "How late workers' event loops are. A stream stands still for as long.",
            _ALL,
            m.LOOP_LAG,
            thresholds=steps((0.005, YELLOW), (0.05, RED)),
            width=12,
        ),
        spread("Loop lag, all of it", "How late workers' event loops are.", _ALL, m.LOOP_LAG),
        lines(
            "Configuration",
            "Workers by the configuration that they serve by, as its digest; one line, but for the moment of a change.",
            [Query(_ALL.now(m.CONFIG_WORKERS, "digest"), "{{digest}}")],
            "short",
            stacked=True,
            width=8,
        ),
        lines(
            "Configuration taken",
            "1 where the file that was read last is in use, 0 where it was refused.",
            [Query(_ALL.now(m.CONFIG_RELOADED, how="min"), "taken")],
            "short",
            width=8,
        ),
        lines(
            "Since the last change",
            "Seconds since a configuration was read last.",
            [Query(f"time() - {_ALL.now(m.CONFIG_RELOADED_AT, how='max')}", "since then")],
            "s",
            width=8,
        ),
    )


def _store() -> tuple[Panel, ...]:
    colors = {"granted": GREEN, "refused": YELLOW, "failed_open": ORANGE, "failed_closed": RED}
    return (
        percentiles(
            "Store",
            "Round trips of limits to the store. Every limited request waits for one.",
            _ALL,
            m.STORE_SECONDS,
            width=12,
        ),
        spread("Store, all of it", "Round trips of limits to the store.", _ALL, m.STORE_SECONDS),
        lines(
            "Reservations",
            "What came of reserving limits. `failed_open`: counted in the worker alone, because the store did not "
            "answer; `failed_closed`: refused with 503 for that.",
            [Query(_ALL.rate(m.RESERVATIONS, "result"), "{{result}}")],
            "reqps",
            stacked=True,
            colors=colors,
            width=12,
        ),
        lines(
            "Calls of the store",
            "Round trips a second, and those that failed.",
            [Query(_ALL.observed(m.STORE_SECONDS), "answered"), Query(_ALL.rate(m.STORE_ERRORS), "failed")],
            "ops",
            colors={"answered": GREEN, "failed": RED},
            width=6,
        ),
        lines(
            "Tenants without series here",
            "Tenants with limits beyond those that the metrics show.",
            [Query(_ALL.now(m.TENANTS_LEFT_OUT, how="max"), "tenants")],
            "short",
            width=6,
        ),
    )


def _records() -> tuple[Panel, ...]:
    return (
        lines(
            "Telemetry dropped",
            "Spans, records and lines that could not be written or sent, by what was to do it. Requests go on.",
            [Query(_ALL.rate(m.TELEMETRY_DROPPED, "sink"), "{{sink}}")],
            "suffix: /s",
        ),
        lines(
            "Audit journal",
            "Records written a second.",
            [Query(_ALL.rate(m.JOURNAL_RECORDS), "written"), Query(_ALL.rate(m.JOURNAL_FAILURES), "failed writes")],
            "suffix: /s",
            colors={"written": GREEN, "failed writes": RED},
        ),
        lines(
            "Journal's disk",
            "Compressed bytes written a second.",
            [Query(_ALL.rate(m.JOURNAL_BYTES), "bytes")],
            "Bps",
            width=4,
        ),
        lines(
            "Not written yet",
            "Records of the journal in memory: what a crash would lose.",
            [Query(_ALL.now(m.JOURNAL_UNWRITTEN), "records")],
            "short",
            width=4,
        ),
    )
