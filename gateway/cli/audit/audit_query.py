"""`penstock audit query` and `penstock audit usage`: print journal entries and usage as a table, JSON or CSV."""

import argparse
import contextlib
import csv
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from gateway.cli.audit.journal_location import locate_journal
from gateway.cli.record_fields import duration
from observability.journal.query import Answer, JournalReader, Period, QueryError, SegmentsRemoved, open_journal
from observability.printable import printable
from observability.terminal import fail, print_json, table
from protos.errors import InvalidRequest

_Query = Callable[[JournalReader, Period], Answer]

#: The columns that are shown by default.
_SHOWN: Final = {
    "requests": "time, id, tenant, model, pool, replica, outcome, status, prompt_tokens AS input, "
    "completion_tokens AS output, round(cost_nano_usd / 1e9, 6) AS usd, round(ended_us / 1e6, 3) AS seconds",
    "changes": "time, id, actor, action, subject",
    "journal": "time, event, segment, records, detail",
}
_BY: Final = {
    "tenant": "tenant",
    "model": "model",
    "key": "key_id",
    "tier": "tier",
    "endpoint": "endpoint",
    "pool": "pool",
    "replica": "replica",
    "outcome": "outcome",
    "hour": "date_trunc('hour', time)",
    "day": "CAST(time AS DATE)",
    "month": "strftime(time, '%Y-%m')",
}
_SUMS: Final = (
    "count(*) AS requests, count_if(outcome <> 'ok') AS failed, sum(prompt_tokens - cached_tokens)::BIGINT AS input, "
    "sum(cached_tokens)::BIGINT AS cached, sum(completion_tokens)::BIGINT AS output, "
    "sum(rejected_tokens)::BIGINT AS rejected, round(sum(cost_nano_usd) / 1e9, 6) AS usd"
)


def query(arguments: argparse.Namespace) -> int:
    """Print entries, the newest first."""
    if arguments.tenant is not None and arguments.of != "requests":
        return fail("audit query", "--tenant: only requests have a tenant")

    def run(reader: JournalReader, period: Period) -> Answer:
        return reader.rows(
            arguments.of,
            period,
            tenant=arguments.tenant,
            where=arguments.where,
            select=arguments.select or _SHOWN[arguments.of],
            limit=arguments.limit,
        )

    return _answer("audit query", arguments, run)


def usage(arguments: argparse.Namespace) -> int:
    """Print usage."""
    by = [name.strip() for name in arguments.by.split(",")]
    if unknown := [name for name in by if name not in _BY]:
        return fail("audit usage", f"--by: expected some of {', '.join(_BY)}, got {printable(unknown[0][:64])!r}")
    columns = ", ".join(str(column + 1) for column in range(len(by)))

    def run(reader: JournalReader, period: Period) -> Answer:
        return reader.rows(
            "requests",
            period,
            tenant=arguments.tenant,
            where=arguments.where,
            select=f"{', '.join(f'{_BY[name]} AS {name}' for name in by)}, {_SUMS}",
            group=columns,
            order=columns,
            limit=arguments.limit,
        )

    return _answer("audit usage", arguments, run)


def _answer(command: str, arguments: argparse.Namespace, run: _Query) -> int:
    try:
        now = time.time()
        period = Period(_moment(arguments.since, "since", now), _moment(arguments.until, "until", now))
        answer, unreadable = _answer_of(locate_journal(arguments).folder, period, run)
    except InvalidRequest as error:
        return fail(command, f"--{error.message}")
    except OSError as error:
        return fail(command, f"{error.filename}: {error.strerror}")
    except (QueryError, ValueError) as error:
        return fail(command, printable(str(error)))
    for line in unreadable:
        print(printable(f"penstock {command}: {line}"), file=sys.stderr)
    _print(answer, arguments.format)
    if answer.more:
        print(f"penstock {command}: there is more; --limit says how much is shown", file=sys.stderr)
    return 0


def _answer_of(folder: Path, period: Period, run: _Query) -> tuple[Answer, list[str]]:
    """Return the answer, and a line for each segment that could not be read."""
    while True:
        with contextlib.suppress(SegmentsRemoved), open_journal(folder, period) as reader:
            return run(reader, period), reader.unreadable


def _moment(text: str, field: str, now: float) -> float:
    """Parse a time, or a duration before now. Raises InvalidRequest."""
    try:
        time_ = datetime.fromisoformat(text)
    except ValueError:
        return now - duration(text, field)
    return (time_ if time_.tzinfo else time_.replace(tzinfo=UTC)).timestamp()


def _print(answer: Answer, form: str) -> None:
    if form == "json":
        print_json([dict(zip(answer.columns, map(_plain, row), strict=True)) for row in answer.rows])
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows([_text(value) for value in row] for row in answer.rows)
    elif answer.rows:
        rows: Sequence[Sequence[str]] = [[_text(value) for value in row] for row in answer.rows]
        print("\n".join(table([[name.upper() for name in answer.columns], *rows])))
    else:
        print("nothing was found")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    return float(value) if isinstance(value, Decimal) else value


def _text(value: Any) -> str:
    """Format a value as one line of a cell."""
    if value is None:
        return ""
    return printable(value.isoformat(" ", "milliseconds") if isinstance(value, datetime) else str(value))
