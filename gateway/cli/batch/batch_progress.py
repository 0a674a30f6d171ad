"""Show a batch's progress as a bar on a terminal."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextlib.contextmanager
def upload_bar(name: str, size: int) -> Iterator[Callable[[int], object]]:
    """Show a bar until the block ends; yield the function that takes each piece's length."""
    with Progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn()) as progress:
        task = progress.add_task(f"uploading {name}", total=size)
        yield lambda count: progress.advance(task, count)


@contextlib.contextmanager
def batch_bar() -> Iterator[Callable[[dict[str, Any]], object]]:
    """Show a bar until the block ends; yield the function that takes the batch's current state."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("", total=None)

        def show(batch: dict[str, Any]) -> None:
            counts = batch["request_counts"]
            failed = f", {counts['failed']} failed" if counts["failed"] else ""
            progress.update(
                task,
                description=f"{batch['status'].replace('_', ' ')}{failed}",
                total=counts["total"] or None,
                completed=counts["completed"] + counts["failed"],
            )

        yield show
