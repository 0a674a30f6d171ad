"""Show how far a replay is as a bar on a terminal."""

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextlib.contextmanager
def replay_bar(what: str, done: int, total: int) -> Iterator[Callable[[int, str], object]]:
    """Show a bar until the block ends; yield the function that takes how many are done, and a word about them."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn()) as progress:
        task = progress.add_task(what, total=total, completed=done)

        def show(completed: int, note: str) -> None:
            progress.update(task, completed=completed, description=f"{what}{', ' + note if note else ''}")

        yield show
