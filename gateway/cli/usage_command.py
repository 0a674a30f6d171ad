"""`penstock usage`: print requests, tokens and cost, by the same code as the admin API's `GET /admin/usage`."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gateway.admin.usage_operations import BY, SINCE, usage_rows
from gateway.cli.registry_access import with_store
from gateway.config.settings import Config
from gateway.store.store_client import Store
from gateway.tenancy.limits.usage_reading import UsageRow
from gateway.tenancy.tenants.tenant_registry import Registry
from observability.terminal import fail, print_json
from protos.errors import InvalidRequest

_COUNTS: Final = (
    ("REQUESTS", "requests"),
    ("INPUT", "input_tokens"),
    ("CACHED", "cached_tokens"),
    ("OUTPUT", "output_tokens"),
    ("USD", "cost_usd"),
    ("REFUSED", "rejected_requests"),
    ("(TOKENS)", "rejected_tokens"),
)


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `usage`."""
    parser = subparsers.add_parser("usage", help="show what was used: requests, tokens and cost")
    parser.add_argument(
        "--by", default=BY, help=f"what rows are told apart by, of tenant, model, key, day (default: {BY})"
    )
    parser.add_argument(
        "--since",
        default=SINCE,
        metavar="TIME",
        help=f"how far back, such as 30m, 24h, 7d, 4w (default: {SINCE}); up to 7d from the beginning of an hour, "
        "beyond from the beginning of a day, UTC",
    )
    parser.add_argument("--tenant", metavar="NAME", help="only this tenant's use")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    async def show(store: Store, config: Config) -> int:
        try:
            rows = await usage_rows(Registry(store, config), store, arguments.by, arguments.since, arguments.tenant)
        except InvalidRequest as error:
            # Its text begins with the parameter, which is the option's name.
            return fail("usage", f"--{error.message}")
        if arguments.json:
            print_json(rows)
        elif rows:
            print("\n".join(_table(rows, [name.strip() for name in arguments.by.split(",")])))
        else:
            print(f"nothing was used in the last {arguments.since}")
        return 0

    return with_store("usage", arguments.config, show)


def _table(rows: Sequence[UsageRow], by: Sequence[str]) -> Iterator[str]:
    """Align names left and numbers right, with the sums below. (TOKENS) are those of refused requests."""
    cells = [[*(getattr(row, name) for name in by), *_numbers([row])] for row in rows]
    header = [name.upper() for name in by] + [title for title, _ in _COUNTS]
    total = ["TOTAL", *("" for _ in by[1:]), *_numbers(rows)]
    lines = [header, *cells, total] if len(rows) > 1 else [header, *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        names = [cell.ljust(width) for cell, width in zip(line[: len(by)], widths, strict=False)]
        numbers = [cell.rjust(width) for cell, width in zip(line[len(by) :], widths[len(by) :], strict=True)]
        yield "  ".join([*names, *numbers])


def _numbers(rows: Sequence[UsageRow]) -> list[str]:
    sums = [sum(getattr(row, name) for row in rows) for _, name in _COUNTS]
    return [
        f"{value:,.4f}" if name == "cost_usd" else f"{value:,}" for value, (_, name) in zip(sums, _COUNTS, strict=True)
    ]
