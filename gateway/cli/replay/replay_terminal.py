"""Numbers of the command line, and progress where there is a terminal."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(what: str, done: int, total: int) -> Iterator[Callable[[int, str], object]]:
    """Show a bar on a terminal; show nothing elsewhere, since a log has no use for it."""
    if not sys.stderr.isatty() or not sys.stdout.isatty():
        yield lambda completed, note: None
        return
    from gateway.cli.replay.replay_progress import replay_bar  # slow to import

    with replay_bar(what, done, total) as show:
        yield show


def between(text: str, *, least: float, most: float, whole: bool = False) -> float:
    """Read a number of an argument. Raises ArgumentTypeError."""
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not from {least:g} to {most:g}")
    return number
