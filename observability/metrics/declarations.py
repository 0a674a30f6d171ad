"""Declare every metric of Penstock. Nothing else is exposed, and dashboards are made from these declarations.

`model` is a model of the configuration, `pool` and `replica` are those that answered last, `tenant` is one of the
tenants with series of their own or `other`. Times are in seconds. Unknown values show as `-`.
"""

from typing import Final

from observability.metrics import buckets, controller_declarations, reshape_declarations
from observability.metrics.metric import GenAi, Metric

#: States of replicas, from the best to the worst.
REPLICA_STATES: Final = (
    *("ready", "returning", "parked", "draining", "drained"),
    *("probing", "connecting", "refused", "wedged", "ejected"),
)
TOKEN_KINDS: Final = ("input", "cached", "output", "reasoning", "rejected")
PREFIX_KINDS: Final = ("prompt", "predicted", "cached")
ADMISSION_RESULTS: Final = ("at_once", "waited", "shed", "deferred")
RESERVATION_RESULTS: Final = ("granted", "refused", "failed_open", "failed_closed")

_POOL: Final = ("model", "pool")
_REPLICA: Final = ("model", "pool", "replica")
_LIMIT: Final = ("tenant", "scope", "limit")
_BUDGET: Final = ("tenant", "scope", "period")

# From requests that have ended.
REQUESTS: Final = Metric(
    "requests_total",
    "counter",
    "Requests that have ended, by how.",
    ("endpoint", "model", "tenant", "outcome"),
    "{request}",
)
REQUEST_SECONDS: Final = Metric(
    "request_seconds",
    "histogram",
    "From a request's arrival to the end of its answer; pool - is of those that came to no replica.",
    _POOL,
    "s",
    buckets.DURATION,
    genai=GenAi("gen_ai.server.request.duration", buckets.GENAI_DURATION),
)
FIRST_TOKEN_SECONDS: Final = Metric(
    "time_to_first_token_seconds",
    "histogram",
    "From a request's arrival to its first token, of streamed answers.",
    _POOL,
    "s",
    buckets.FIRST_TOKEN,
    genai=GenAi("gen_ai.server.time_to_first_token", buckets.GENAI_FIRST_TOKEN),
)
INTER_TOKEN_SECONDS: Final = Metric(
    "inter_token_seconds",
    "histogram",
    "Between one event with tokens and the next, of streamed answers.",
    _POOL,
    "s",
    buckets.INTER_TOKEN,
)
PER_TOKEN_SECONDS: Final = Metric(
    "time_per_output_token_seconds",
    "histogram",
    "Mean time for each token after the first, of each streamed answer.",
    _POOL,
    "s",
    buckets.PER_TOKEN,
    genai=GenAi("gen_ai.server.time_per_output_token", buckets.GENAI_PER_TOKEN),
)
QUEUE_SECONDS: Final = Metric(
    "queue_seconds",
    "histogram",
    "From the reservation of limits to a request's turn.",
    ("model", "tier"),
    "s",
    buckets.QUEUE,
)
GATEWAY_SECONDS: Final = Metric(
    "gateway_seconds",
    "histogram",
    "The gateway's part of answers: from arrival to the replica and from the last token to the end, waiting included.",
    _POOL,
    "s",
    buckets.GATEWAY,
)
ENGINE_SECONDS: Final = Metric(
    "engine_seconds",
    "histogram",
    "The replica's part of answers: from the submit to the last token.",
    _POOL,
    "s",
    buckets.DURATION,
)
TOKENS: Final = Metric(
    "tokens_total",
    "counter",
    "Tokens: input without what was cached, cached, output without reasoning, reasoning, and rejected ones, which were "
    "asked for and not computed.",
    ("model", "tenant", "kind"),
    "{token}",
)
COST: Final = Metric("cost_usd_total", "counter", "What requests cost, in US dollars.", ("model", "tenant"), "USD")
PROMPT_TOKENS: Final = Metric(
    "prompt_tokens",
    "histogram",
    "Tokens of a prompt, cached ones included.",
    ("model",),
    "{token}",
    buckets.TOKENS,
    genai=GenAi("gen_ai.client.token.usage", buckets.GENAI_TOKENS, "input"),
)
ANSWER_TOKENS: Final = Metric(
    "answer_tokens",
    "histogram",
    "Tokens of an answer, of all its sequences.",
    ("model",),
    "{token}",
    buckets.TOKENS,
    genai=GenAi("gen_ai.client.token.usage", buckets.GENAI_TOKENS, "output"),
)
ROUTED: Final = Metric(
    "routed_requests_total",
    "counter",
    "Requests that went to a replica, by who decided and why.",
    ("model", "pool", "policy", "reason"),
    "{request}",
)
RETRIES: Final = Metric("retries_total", "counter", "Submits again after a failure before the first token.", _POOL)
MIGRATIONS: Final = Metric(
    "migrations_total",
    "counter",
    "Submits again after a failure later, or after a drain or a change of shape.",
    _POOL,
)
HEDGES: Final = Metric("hedges_total", "counter", "Second submits beside a slow one.", _POOL)
PREFIX_TOKENS: Final = Metric(
    "prefix_tokens_total",
    "counter",
    "Tokens of prompts, those of them that were predicted to be cached, and those that were.",
    (*_POOL, "kind"),
    "{token}",
)
FILTER_VERDICTS: Final = Metric(
    "filter_verdicts_total", "counter", "Findings of filters' rules.", ("rule", "action", "where")
)
FILTER_SECONDS: Final = Metric(
    "filter_seconds",
    "histogram",
    "Time that filters of a prompt took, guards included.",
    ("model",),
    "s",
    buckets.FILTER,
)
FILTER_HELD_SECONDS: Final = Metric(
    "filter_held_seconds",
    "histogram",
    "The longest that text of an answer was held back by filters.",
    ("model",),
    "s",
    buckets.FILTER,
)

# From workers' state.
ADMISSIONS: Final = Metric(
    "admissions_total",
    "counter",
    "Requests that got their turn at once, after waiting, or not at all (`deferred`: in the background).",
    ("model", "tier", "result"),
    "{request}",
)
VERSION_MISSED: Final = Metric(
    "version_missed_total",
    "counter",
    "Requests that were a candidate's by their split, and that the stable version answered: no replica of it could.",
    ("model",),
    "{request}",
)
IN_FLIGHT: Final = Metric("in_flight_requests", "gauge", "Requests under way.", (), "{request}")
MODEL_IN_FLIGHT: Final = Metric(
    "model_in_flight_requests",
    "gauge",
    "Requests under way, waiting ones included, of every configured model.",
    ("model",),
    "{request}",
)
QUEUE_DEPTH: Final = Metric("queue_depth", "gauge", "Requests that wait for their turn.", ("model",), "{request}")
REPLICA_UP: Final = Metric(
    "replica_up", "gauge", "1 where every worker would give requests to the replica, else 0.", _REPLICA, across="min"
)
REPLICA_STATE: Final = Metric(
    "replica_state",
    "gauge",
    "1 for the state that the replica is in, the worst that any worker sees.",
    (*_REPLICA, "state"),
    across="worst",
)
REPLICA_GROUP: Final = Metric(
    "replica_group",
    "gauge",
    "1 for the GPUs of its host group that the replica serves, or on which it is parked, and how it stands there: "
    "serving, parked, prepared or changing.",
    (*_REPLICA, "group", "gpus", "state"),
    across="max",
)
REPLICA_GROUP_FAILED: Final = Metric(
    "replica_group_failed",
    "gauge",
    "1 where the last change of its shape that the replica was ordered was refused or undone, else 0.",
    (*_REPLICA, "group"),
    across="max",
)
REPLICA_RUNNING: Final = Metric(
    "replica_running", "gauge", "Sequences in the engine's batch, of all workers.", _REPLICA, across="newest"
)
REPLICA_WAITING: Final = Metric(
    "replica_waiting", "gauge", "Sequences in the engine's own queue.", _REPLICA, across="newest"
)
REPLICA_IN_FLIGHT: Final = Metric("replica_in_flight", "gauge", "Sequences that workers have there.", _REPLICA)
REPLICA_KV_USED: Final = Metric("replica_kv_blocks_used", "gauge", "KV blocks in use.", _REPLICA, across="newest")
REPLICA_KV_TOTAL: Final = Metric("replica_kv_blocks", "gauge", "KV blocks that there are.", _REPLICA, across="newest")
REPLICA_SHARE: Final = Metric(
    "replica_share",
    "gauge",
    "The part of decisions that may choose the replica; mean of workers.",
    _REPLICA,
    across="mean",
)
REPLICA_BREAKER: Final = Metric(
    "replica_breaker_seconds", "gauge", "For how long the replica is left alone still.", _REPLICA, "s", across="max"
)
REPLICA_ACCURACY: Final = Metric(
    "replica_prefix_accuracy",
    "gauge",
    "How well cached tokens of prompts are predicted, 0 to 1; mean of workers.",
    _REPLICA,
    across="mean",
)
REPLICA_FAILURES: Final = Metric(
    "replica_failures_total", "counter", "Faults that counted against the replica.", _REPLICA
)
REPLICA_EJECTIONS: Final = Metric(
    "replica_ejections_total", "counter", "How often the replica was left alone for a while.", _REPLICA
)
STORE_SECONDS: Final = Metric(
    "store_seconds", "histogram", "Round trips of limits to the store.", (), "s", buckets.STORE
)
STORE_ERRORS: Final = Metric("store_errors_total", "counter", "Round trips of limits that failed.")
RESERVATIONS: Final = Metric(
    "reservations_total",
    "counter",
    "Reservations of limits; failed ones are those that the store did not answer, by what the tenant wants then.",
    ("result",),
    "{request}",
)
LOOP_LAG: Final = Metric(
    "loop_lag_seconds", "histogram", "How late workers' event loops are.", (), "s", buckets.LOOP_LAG
)
PROCESS_CPU: Final = Metric(
    "process_cpu_seconds_total", "counter", "CPU time of processes, the workers' together.", ("process",), "s"
)
PROCESS_RESIDENT: Final = Metric(
    "process_resident_bytes", "gauge", "Memory of processes, the workers' together.", ("process",), "By"
)
WORKERS: Final = Metric("workers", "gauge", "Worker processes that live.")
CONFIG_WORKERS: Final = Metric(
    "config_workers", "gauge", "Workers that serve by the configuration with this digest.", ("digest",)
)
CONFIG_RELOADED: Final = Metric(
    "config_last_reload_successful",
    "gauge",
    "1 where the configuration that was read last is in use, 0 where it was refused.",
    across="min",
)
CONFIG_RELOADED_AT: Final = Metric(
    "config_last_reload_seconds",
    "gauge",
    "When a configuration was read last, in seconds since 1970.",
    (),
    "s",
    across="max",
)
WORKER_RESTARTS: Final = Metric("worker_restarts_total", "counter", "Workers that were started beyond the first ones.")
TELEMETRY_DROPPED: Final = Metric(
    "telemetry_dropped_total", "counter", "What could not be written or sent, by what was to do it.", ("sink",)
)
JOURNAL_RECORDS: Final = Metric("journal_records_total", "counter", "Records written to the audit journal.")
JOURNAL_BYTES: Final = Metric("journal_bytes_total", "counter", "Bytes written to the audit journal.", (), "By")
JOURNAL_FAILURES: Final = Metric("journal_failures_total", "counter", "Writes to the audit journal that failed.")
JOURNAL_UNWRITTEN: Final = Metric(
    "journal_unwritten_records", "gauge", "Records of the audit journal that wait to be written."
)

# From the store, read when somebody reads the metrics.
STORE_UP: Final = Metric("store_up", "gauge", "Whether the store has answered; where not, limits are not shown.")
LIMIT: Final = Metric("limit", "gauge", "A limit, by its name in the tenant's record.", _LIMIT)
LIMIT_USED: Final = Metric("limit_used", "gauge", "Its use in the last 60 seconds; of concurrency, now.", _LIMIT)
LIMIT_REFUSALS: Final = Metric("limit_refusals_total", "counter", "Requests that the limit refused.", _LIMIT)
LIMITED_IN_FLIGHT: Final = Metric(
    "limited_requests_in_flight", "gauge", "Requests under way or waiting.", ("tenant", "scope"), "{request}"
)
BUDGET: Final = Metric("budget_usd", "gauge", "A budget, in US dollars for its period.", _BUDGET, "USD")
BUDGET_SPENT: Final = Metric(
    "budget_spent_usd", "gauge", "What is spent of it in the period under way.", _BUDGET, "USD"
)
BUDGET_RESERVED: Final = Metric(
    "budget_reserved_usd", "gauge", "What requests under way are expected to cost.", _BUDGET, "USD"
)
BUDGET_ALERTS: Final = Metric("budget_alerts_passed", "gauge", "Alerts of the budget that the period has had.", _BUDGET)
TENANTS_LEFT_OUT: Final = Metric("tenants_left_out", "gauge", "Tenants with limits beyond those that are shown.")

#: All metrics, in the order in which they are exposed.
METRICS: Final = (
    *(value for value in tuple(globals().values()) if isinstance(value, Metric)),
    *controller_declarations.METRICS,
    *reshape_declarations.METRICS,
)
BY_NAME: Final = {metric.name: metric for metric in METRICS}
