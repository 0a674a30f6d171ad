"""Prints price lists."""

from collections.abc import Sequence

from rich.console import Console

from loadtest.cost.budget import Overdraft, grown_functions
from loadtest.cost.bytecodes import LIBRARIES, PACKAGES
from loadtest.cost.instructions import ALLOCATIONS, INSTRUCTIONS, MALLOCS, MISSES
from loadtest.cost.price import Prices
from loadtest.cost.system_calls import SYSTEM_CALLS
from loadtest.cost.wire import ROUND_TRIPS, WIRES
from loadtest.reports.console import new_table

_GROWN = 12


def print_prices(found: Prices, out: Console) -> None:
    """Print what was counted, in a table for each kind of count."""
    table = new_table("Bytecodes", "", "all", *PACKAGES, LIBRARIES)
    for name, price in found.items():
        if price.bytecodes is not None:
            table.add_row(name, *map(_shown, (price.bytecodes.total, *price.bytecodes.packages.values())))
    if table.row_count:
        out.print(table)
    titled = {
        "Instructions and memory": (INSTRUCTIONS, MISSES, ALLOCATIONS, MALLOCS),
        "Calls and bytes": (SYSTEM_CALLS, ROUND_TRIPS, *WIRES),
    }
    for title, names in titled.items():
        columns = [name for name in names if any(name in price.counts for price in found.values())]
        table = new_table(title, "", *columns)
        for name, price in found.items():
            table.add_row(name, *(_shown(price.counts.get(column)) for column in columns))
        if columns:
            out.print(table)


def print_functions(found: Prices, count: int, out: Console) -> None:
    """Print the dearest functions of each price."""
    for name, price in found.items():
        if price.bytecodes is not None:
            table = new_table(f"{name}: the dearest functions", "module", "function", "bytecodes", left=2)
            for function in price.bytecodes.functions[:count]:
                table.add_row(function.module, f"{function.function}:{function.line}", f"{function.bytecodes:,.1f}")
            out.print(table)


def print_grown(before: Prices, now: Prices, out: Console) -> None:
    """Print the functions that cost more than in an earlier run."""
    for name, price in now.items():
        earlier = before.get(name)
        if price.bytecodes is None or earlier is None or earlier.bytecodes is None:
            continue
        table = new_table(f"{name}: functions that have become dearer", "function", "before", "now")
        for function, old, new in grown_functions(earlier.bytecodes.functions, price.bytecodes.functions)[:_GROWN]:
            table.add_row(function, f"{old:,.1f}", f"{new:,.1f}")
        out.print(table)


def print_overdrafts(found: Sequence[Overdraft], out: Console) -> None:
    """Print what is over the budget."""
    for one in found:
        out.print(f"over the budget: {one}")


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"
