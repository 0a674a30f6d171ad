"""Measure the speed of filters, alone and together, on whole and on streamed texts."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from safety.action import Action
from safety.filter import StreamFilter
from safety.screen import Rule, Screen, screened

#: Texts are joined to documents of this length, as each call has a fixed cost.
CHARACTERS: Final = 1_000
#: The number of characters that are measured.
_MOST_CHARACTERS: Final = 500_000
#: The number of runs; the fastest counts, as the others were disturbed.
_RUNS: Final = 5


class Speed(NamedTuple):
    """Microseconds per 1,000 characters of whole text and per streamed token; the most characters held back."""

    whole: float
    token: float
    held_back: int


def alone(filter_: StreamFilter, texts: Iterable[str]) -> Speed:
    """Measure one filter by itself."""
    return _measured(filter_.scan, filter_.stream, lambda stream: stream.open, texts)


def together(filters: Iterable[StreamFilter], texts: Iterable[str]) -> Speed:
    """Measure filters that flag, together with the screen that records findings and holds text back."""
    rules = [Rule("", filter_, Action.FLAG) for filter_ in filters]
    return _measured(lambda text: screened(text, rules), lambda: Screen(rules), lambda screen: screen.decided, texts)


def _measured(
    whole: Callable[[str], object], stream: Callable[[], Any], decided: Callable[[Any], int], texts: Iterable[str]
) -> Speed:
    documents = _documents(texts)
    cut = [list(_tokens(document)) for document in documents]
    characters, tokens = sum(map(len, documents)), sum(map(len, cut))

    def stream_all() -> None:
        for pieces in cut:
            one = stream()
            feed = one.feed
            for piece in pieces:
                feed(piece)
            one.finish()

    return Speed(
        _fastest(lambda: [whole(document) for document in documents]) * 1e6 * 1_000 / max(characters, 1),
        _fastest(stream_all) * 1e6 / max(tokens, 1),
        max((_held_back(stream(), decided, pieces) for pieces in cut), default=0),
    )


def _fastest(run: Callable[[], object]) -> float:
    """Return the seconds of processor time of the fastest run."""
    times = []
    for _ in range(_RUNS):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return min(times)


def _held_back(stream: Any, decided: Callable[[Any], int], pieces: Sequence[str]) -> int:
    longest = fed = 0
    for piece in pieces:
        fed += len(piece)
        stream.feed(piece)
        longest = max(longest, fed - decided(stream))
    return longest


def _documents(texts: Iterable[str]) -> list[str]:
    documents, parts, length, total = [], list[str](), 0, 0
    for text in texts:
        parts.append(text)
        length += len(text) + 2
        if length >= CHARACTERS:
            documents.append("\n\n".join(parts))
            total += length
            parts, length = [], 0
        if total >= _MOST_CHARACTERS:
            break
    return [*documents, "\n\n".join(parts)] if parts else documents


def _tokens(text: str) -> Iterable[str]:
    """Cut a text into pieces of 4 and 5 characters in turn, about the length of tokens."""
    at, length = 0, 4
    while at < len(text):
        yield text[at : at + length]
        at, length = at + length, 9 - length
