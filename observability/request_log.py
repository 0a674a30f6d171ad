"""Log at most one line per request, when it has ended."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from observability.outcome import FAILED, Outcome
from observability.record import RequestRecord

log = logging.getLogger(__name__)

Which = Literal["none", "failed", "all"]
_SERVER_ERROR: Final = 500


class RequestLog:
    """The `Sink` of log lines. `failed` requests are those that failed by no fault of the client; each logs a
    warning.

    At most `per_second` lines a second are written of failures, and as many of other requests; the next line says how
    many were left out.
    """

    def __init__(self, which: Which, *, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._which = which
        self._budgets = {failed: _Budget(per_second, clock) for failed in (True, False)}
        self._dropped = 0

    def take(self, records: Sequence[RequestRecord]) -> None:
        """Write the lines of a batch."""
        if self._which == "none":
            return
        every, ok = self._which == "all", Outcome.OK
        for record in records:
            failed = record.outcome is not ok and (record.status >= _SERVER_ERROR or record.outcome in FAILED)
            if failed or every:
                self._write(record, failed=failed)

    def counts(self) -> Mapping[str, float]:
        """Return how many lines were left out."""
        return {"telemetry_dropped_total": self._dropped}

    def _write(self, record: RequestRecord, *, failed: bool) -> None:
        budget = self._budgets[failed]
        if not budget.has_room():
            self._dropped += 1
            return
        level = logging.WARNING if failed else logging.INFO
        left_out = budget.take_left_out()
        rest = f" ({left_out} lines like it were left out)" if left_out else ""
        fields = _fields(record)
        if left_out:
            fields["left_out"] = left_out
        log.log(
            level,
            "request %s of tenant %s: %d %s%s%s in %.3f s%s%s",
            record.id,
            record.tenant or "-",
            record.status,
            record.code or record.outcome.value,
            f", model {record.model}" if record.model else "",
            f" at replica {record.replica}" if record.replica else "",
            max(0.0, record.ended - record.arrived),
            f": {record.detail}" if record.detail else "",
            rest,
            extra={"fields": fields},
        )

    async def aclose(self) -> None:
        """Log how many lines were left out since the last one. Idempotent."""
        left_out = sum(budget.take_left_out() for budget in self._budgets.values())
        if left_out:
            log.warning("%d lines about requests were left out", left_out)


class _Budget:
    """A budget of lines per second."""

    def __init__(self, per_second: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._clock = clock
        self._second = 0
        self._written = 0
        self._left_out = 0

    def has_room(self) -> bool:
        """Take a line from the budget, if there is one left in this second."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._written = second, 0
        if self._written >= self._per_second:
            self._left_out += 1
            return False
        self._written += 1
        return True

    def take_left_out(self) -> int:
        """Return how many lines were left out since the last call."""
        left_out, self._left_out = self._left_out, 0
        return left_out


def _fields(record: RequestRecord) -> dict[str, str | int | float]:
    """Return the members of a JSON line; unknown values are left out."""
    known: dict[str, str | int | float] = {
        "request_id": record.id,
        "client_request_id": record.client_request_id,
        "trace_id": record.trace.trace_id.hex() if record.trace is not None else "",
        "endpoint": record.endpoint,
        "outcome": record.outcome.value,
        "status": record.status,
        "code": record.code,
        "tenant": record.tenant,
        "key_id": record.key_id,
        "model": record.model,
        "pool": record.pool,
        "replica": record.replica,
        "client": record.client,
        "seconds": round(max(0.0, record.ended - record.arrived), 6),
        "first_token_seconds": round(record.first_token - record.arrived, 6) if record.first_token else 0,
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "completion_tokens": record.completion_tokens,
        "retries": record.retries,
        "migrations": record.migrations,
        "finish": record.finish,
    }
    return {name: value for name, value in known.items() if value or name == "seconds"}
