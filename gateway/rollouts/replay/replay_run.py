"""Ask a corpus of a gateway, several requests at a time, and keep each result as it comes."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from gateway.rollouts.replay.corpus import Entry
from gateway.rollouts.replay.run_file import Result


class Asker(Protocol):
    """Asks one request; called by several threads at once."""

    def ask(self, entry: Entry) -> Result:
        """Return the answer, or the refusal, as a result. Raises whatever means that the others would fail, too."""
        ...


def unanswered(entries: Sequence[Entry], done: Iterable[str]) -> list[Entry]:
    """Give the entries that have no result yet, in order."""
    known = set(done)
    return [entry for entry in entries if entry.id not in known]


def ask_all(entries: Sequence[Entry], asker: Asker, concurrency: int) -> Iterator[Result]:
    """Yield results as they come, of `concurrency` requests at a time. Raises what the asker raises.

    The threads are daemons: a process that is told to end does not wait for answers. Whoever stops early has no more
    asked than what runs.
    """
    waiting: queue.SimpleQueue[Entry] = queue.SimpleQueue()
    results: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()
    for entry in entries:
        waiting.put(entry)
    ended = threading.Event()
    for number in range(min(concurrency, len(entries))):
        threading.Thread(
            target=_ask_waiting, args=(waiting, results, asker.ask, ended), name=f"replay-{number}", daemon=True
        ).start()
    try:
        for _ in entries:
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:
        ended.set()


def _ask_waiting(
    waiting: "queue.SimpleQueue[Entry]",
    results: "queue.SimpleQueue[Result | BaseException]",
    ask: Callable[[Entry], Result],
    ended: threading.Event,
) -> None:
    while not ended.is_set():
        try:
            entry = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            results.put(ask(entry))
        except BaseException as error:
            results.put(error)
            return
