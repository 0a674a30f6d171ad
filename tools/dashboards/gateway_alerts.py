"""Alerts on the gateway itself: its processes, its store, its filters, and the records it writes."""

from typing import Final

from observability.metrics import declarations as m
from tools.dashboards.alert import Alert
from tools.dashboards.conditions import above, equal
from tools.dashboards.dashboard_kinds import JOURNAL, LOG
from tools.dashboards.promql import Not, Scope, or_zero, ratio, share

_FIVE: Final = Scope(window="5m")
_NOW: Final = Scope()
_BUDGET: Final = ("tenant", "scope", "period")
#: The job of the scrape configuration; every gateway is one of its targets.
_UP: Final = 'up{job="penstock"}'


def gateway_alerts() -> list[Alert]:
    """List the gateway's alerts."""
    return [*_process_alerts(), *_store_alerts(), *_record_alerts(), *_policy_alerts()]


def _process_alerts() -> list[Alert]:
    return [
        Alert(
            name="GatewayDown",
            severity="page",
            condition=equal(_UP, 0),
            wait="1m",
            summary="The gateway at {{ $labels.instance }} does not answer Prometheus.",
            meaning="Either it is down, or only its admin API is, or its key has changed.",
            actions=(
                "Ask `/healthz` on the gateway's own port: if that answers, requests are served.",
                "`penstock serve` restarts the admin API by itself; its log says why it ended. With 401 in "
                "Prometheus' list of targets, give Prometheus the key again.",
            ),
        ),
        Alert(
            name="WorkersRestart",
            severity="ticket",
            condition=above(_NOW.over("15m").increase(m.WORKER_RESTARTS), 0),
            wait="0m",
            summary="Workers of the gateway have died and were restarted.",
            now="{{ $value | humanize }} in 15 minutes.",
            meaning="A worker that dies takes its open requests with it; after 5 in 60 seconds the gateway ends.",
            actions=(
                "Look for the kernel's out-of-memory killer (`dmesg`), and at *Gateway* for memory that grows.",
                "The log's last lines of the worker's process id say what it did.",
            ),
        ),
        Alert(
            name="ConfigurationRefused",
            severity="ticket",
            condition=equal(_NOW.now(m.CONFIG_RELOADED, how="min"), 0),
            wait="1m",
            summary="The configuration file cannot be taken; the gateway serves by the one before.",
            meaning="A restart would fail, or would change what this gateway can only change by a restart.",
            actions=(
                "The log's line `configuration refused` names the file, the field and the reason.",
                "`penstock config diff` shows what the file would change, and `penstock config reload` tries it again.",
            ),
        ),
        Alert(
            name="LoopLags",
            severity="ticket",
            condition=above(_FIVE.quantile(0.99, m.LOOP_LAG), 0.05),
            wait="5m",
            summary="The gateway's event loops are late.",
            now="1 % of the time by {{ $value | humanizeDuration }} or more.",
            meaning="Every stream of such a worker stands still for as long; 50 ms is the limit.",
            actions=(
                "*Gateway* shows CPU: workers at 100 % need more cores (`listen.workers`) or another machine.",
                "Otherwise look for a filter of your own that computes, or for a machine that swaps.",
            ),
        ),
    ]


def _store_alerts() -> list[Alert]:
    unanswered = _FIVE.rate(m.RESERVATIONS, result=("failed_open", "failed_closed"))
    return [
        Alert(
            name="StoreDown",
            severity="page",
            condition=equal(_NOW.now(m.STORE_UP, how="min"), 0),
            wait="1m",
            summary="The store does not answer.",
            meaning="Tenants that are not `fail_open` get 503; those that are have their limits counted by each "
            "worker alone.",
            actions=(
                "Is the store there, and does the network let the gateway reach it? The gateway goes on by itself "
                "when it is back.",
                "[Operations](operations.md#when-the-store-is-away) says what holds meanwhile.",
            ),
        ),
        Alert(
            name="ReservationsFail",
            severity="page",
            condition=above(ratio(unanswered, _FIVE.rate(m.RESERVATIONS)), 0.01),
            wait="2m",
            summary="Limits of requests cannot be checked.",
            now="{{ $value | humanizePercentage }} of the reservations.",
            meaning="The store did not answer them in time (`store.timeout_seconds`).",
            actions=("*Gateway* shows the store's latency and errors. Look at its CPU, memory and slow commands.",),
        ),
        Alert(
            name="StoreErrors",
            severity="ticket",
            condition=above(_FIVE.rate(m.STORE_ERRORS), 0.1),
            wait="5m",
            summary="Calls of the store fail.",
            now="{{ $value | humanize }} a second.",
            meaning="What failed was tried again or answered as `on_store_failure` says.",
            actions=("The gateway's log says how they fail. A cluster that fails over is back within seconds.",),
        ),
        Alert(
            name="StoreSlow",
            severity="ticket",
            condition=above(_FIVE.quantile(0.99, m.STORE_SECONDS), 0.1),
            wait="5m",
            summary="The store answers slowly.",
            now="1 % of the calls take {{ $value | humanizeDuration }} or more.",
            meaning="Every limited request waits for one; 100 ms is the limit.",
            actions=("Look at the store's slow log, at its disk (append-only file) and at the network between.",),
        ),
    ]


def _record_alerts() -> list[Alert]:
    return [
        Alert(
            name="JournalFails",
            severity="page",
            condition=above(_FIVE.increase(m.JOURNAL_FAILURES), 0),
            wait="0m",
            summary="The audit journal cannot be written.",
            now="{{ $value | humanize }} writes failed in 5 minutes.",
            meaning="With `on_full: refuse` requests are refused; with `continue` their records are lost once the "
            "buffer is full.",
            actions=(
                "Is the disk of the journal's folder full or read-only? The log names the folder and the error.",
                "Make room with something else, then lower `keep_bytes` or `keep_days`, which bound what is kept: a "
                "segment that is removed by hand is missing to `penstock audit verify`.",
                "`penstock audit verify` afterwards says whether what is there is whole.",
            ),
        ),
        Alert(
            name="JournalLosesRecords",
            severity="page",
            condition=above(_FIVE.increase(m.TELEMETRY_DROPPED, sink=JOURNAL), 0),
            wait="0m",
            summary="The audit journal has lost records.",
            now="{{ $value | humanize }} in 5 minutes.",
            meaning="They were never written: there are requests that no audit will find.",
            actions=(
                "See *PenstockJournalFails*: as a rule the disk has failed for longer than the buffer lasts.",
                "Without failed writes the disk is too slow; *Gateway* shows how many records wait for it.",
            ),
        ),
        Alert(
            name="TelemetryDropped",
            severity="ticket",
            condition=above(_FIVE.increase(m.TELEMETRY_DROPPED, "sink", sink=Not((JOURNAL, LOG))), 0),
            wait="5m",
            summary="{{ $labels.sink }} loses records.",
            now="{{ $value | humanize }} in 5 minutes.",
            meaning="Requests go on; what is seen of them has gaps.",
            actions=(
                "Traces: is the collector there, and does it keep up? A lower `traces.sample` sends less.",
                "Metrics: the folder `metrics` of `state` cannot be written.",
            ),
        ),
    ]


def _policy_alerts() -> list[Alert]:
    spent = share(_NOW.now(m.BUDGET_SPENT, *_BUDGET, how="max"), _NOW.now(m.BUDGET, *_BUDGET, how="max"))
    failed, verdicts = _FIVE.rate(m.FILTER_VERDICTS, "rule", action="failed"), _FIVE.rate(m.FILTER_VERDICTS, "rule")
    return [
        Alert(
            name="BudgetNearlySpent",
            severity="ticket",
            condition=above(spent, 0.9),
            wait="0m",
            summary="{{ $labels.tenant }} has spent more than 90 % of its budget.",
            now="The budget of {{ $labels.scope }} for this {{ $labels.period }}.",
            meaning="Once it is spent, requests get 429 `insufficient_quota`.",
            actions=(
                "Tell the tenant, or raise it: `penstock tenants update NAME --budget ...`.",
                "*Tenants* shows which model the money went to.",
            ),
        ),
        Alert(
            name="FilterFails",
            severity="ticket",
            condition=above(f"({or_zero(failed, verdicts)})", 0),
            wait="2m",
            summary="The filter {{ $labels.rule }} fails.",
            now="{{ $value | humanize }} texts a second.",
            meaning="It could not judge them. With `on_failure: fail_closed` these requests are refused, with "
            "`fail_open` nobody has looked at them.",
            actions=("The log says how it fails. A guard model or moderation service: is it there, and fast enough?",),
        ),
    ]
