"""Prints price lists."""

from collections.abc import Mapping

from rich.console import Console

from loadtest.cost.bytecodes import LIBRARIES, PACKAGES
from loadtest.cost.measure import Bytecodes
from loadtest.reports.console import new_table


def print_packages(found: Mapping[str, Bytecodes], out: Console) -> None:
    """Print bytecodes by package."""
    table = new_table("Bytecodes", "", "all", *PACKAGES, LIBRARIES)
    for name, bytecodes in found.items():
        shown = (bytecodes.total, *bytecodes.packages.values())
        table.add_row(name, *(f"{value:,.0f}" for value in shown))
    out.print(table)


def print_functions(found: Mapping[str, Bytecodes], count: int, out: Console) -> None:
    """Print the dearest functions of each price."""
    for name, bytecodes in found.items():
        table = new_table(f"{name}: the dearest functions", "module", "function", "bytecodes", left=2)
        for price in bytecodes.functions[:count]:
            table.add_row(price.module, f"{price.function}:{price.line}", f"{price.bytecodes:,.1f}")
        out.print(table)
