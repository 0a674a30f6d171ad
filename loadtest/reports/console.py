"""Writes the output of benchmarks: tables and progress on a terminal, results as JSON."""

import contextlib
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

#: Tables are wider than the 80 columns that rich assumes where there is no terminal.
_WIDTH: Final = 120


def console() -> Console:
    """Return the console for results, on standard output."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=_WIDTH)


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str, float, int], None] | None]:
    """Show a bar on standard error during the block; yields None where that is no terminal."""
    err = Console(stderr=True)
    if not err.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, refresh_per_second=4) as bar:
        task = bar.add_task("starting", total=1)

        def show(label: str, done: float, total: int) -> None:
            bar.update(task, description=label, completed=done, total=total)

        yield show


def write_json(path: Path, kind: str, results: object, settings: Mapping[str, object]) -> None:
    """Write results with a description of the machine. Raises OSError."""
    document = {"benchmark": kind, "machine": machine(), "settings": settings, "results": results}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")


def machine() -> dict[str, object]:
    """Describe the machine and software that a figure depends on."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return {
        "cpu": found[1] if found else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def new_table(title: str, *columns: str, left: int = 1) -> Table:
    """Make an empty table in the style of all benchmarks; the columns after the first `left` ones hold figures."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=SIMPLE_HEAD)
    table.padding = (0, 1, 0, 0)  # fits a row of figures into 80 columns
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right", vertical="bottom", overflow="fold")
    return table
