"""Format a route's explanation as tables that fit a terminal."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from routing.contracts.explanation import Candidate, RouteExplanation

#: The mark of the chosen candidate.
CHOSEN = ">"
_GAP = "  "


def explanation_lines(explanation: RouteExplanation, width: int) -> Iterator[str]:
    """Describe the decision, then the candidates it was made among, then those that were excluded.

    Columns that do not fit into `width` go on in a second table below.
    """
    yield from _summary(explanation)
    weighed = [candidate for candidate in explanation.candidates if not candidate.excluded]
    if weighed:
        yield ""
        yield from _table(weighed, (explanation.replica, explanation.prefill), width)
    excluded = sorted(
        (candidate for candidate in explanation.candidates if candidate.excluded),
        key=lambda candidate: candidate.excluded,
    )
    if excluded:
        yield ""
        yield "could not be taken:"
        for reason, group in groupby(excluded, key=lambda candidate: candidate.excluded):
            yield from _wrapped(f"  {reason}: ", [_name(candidate) for candidate in group], width)


def _summary(explanation: RouteExplanation) -> Iterator[str]:
    goes_to = "nowhere now"
    if explanation.replica is not None:
        goes_to = _name(Candidate(explanation.replica, explanation.prefill))
    ttft = explanation.expected_ttft_seconds
    answer = f"{explanation.expected_output_tokens:,.0f} tokens expected, {explanation.max_tokens:,} at most"
    fields = [
        ("model", explanation.model),
        ("policy", explanation.policy),
        ("goes to", goes_to),
        ("because", explanation.reason),
        ("prompt", f"{explanation.prompt_tokens:,} tokens, {explanation.cached_tokens:,} believed to be cached there"),
        ("answer", answer),
        ("first token", "" if ttft is None else f"expected after {ttft:.3g} s"),
        ("queue", f"{explanation.waiting:,} wait for a turn in this worker" if explanation.waiting else ""),
    ]
    yield from (f"{name:<13}{value}" for name, value in fields if value)


def _name(candidate: Candidate) -> str:
    return f"{candidate.prefill} then {candidate.replica}" if candidate.prefill else candidate.replica


def _table(weighed: Sequence[Candidate], chosen: tuple[str | None, str | None], width: int) -> Iterator[str]:
    marks = [CHOSEN if (candidate.replica, candidate.prefill) == chosen else "" for candidate in weighed]
    names = [
        _Column([""], marks),
        _Column(["#"], [str(rank) for rank in range(1, len(weighed) + 1)], right=True),
        _Column(["REPLICA"], [candidate.replica for candidate in weighed]),
    ]
    if any(candidate.prefill for candidate in weighed):
        names.append(_Column(["PREFILL"], [candidate.prefill or "-" for candidate in weighed]))
    measures = [_Column(["VALUE"], _numbers([candidate.value for candidate in weighed]), right=True)]
    if any(candidate.cached_tokens for candidate in weighed):
        measures.append(_Column(["CACHED"], [f"{candidate.cached_tokens:,}" for candidate in weighed], right=True))
    # In the policy's order, which is the same for all; a candidate may lack some.
    parts = dict.fromkeys(part for candidate in weighed for part in candidate.parts)
    zero = [part for part in parts if not any(candidate.parts.get(part) for candidate in weighed)]
    for part in parts:
        if part not in zero:
            cells = _numbers([candidate.parts.get(part) for candidate in weighed])
            measures.append(_Column(part.upper().split("_"), cells, right=True))
    first = True
    for group in _groups(measures, width - sum(column.width + len(_GAP) for column in names)):
        if not first:
            yield ""
        first = False
        yield from _lines([*names, *group])
    if zero:
        yield from _wrapped("0 for all: ", zero, width)


class _Column:
    """Cells under a heading of words, which share a line as far as the cells' width allows."""

    def __init__(self, words: Sequence[str], cells: Sequence[str], *, right: bool = False) -> None:
        self.width = max(len(text) for text in [*words, *cells])
        self.right = right
        self.cells = cells
        self.heading: list[str] = []
        for word in words:
            if self.heading and len(self.heading[-1]) + 1 + len(word) <= self.width:
                self.heading[-1] += f" {word}"
            else:
                self.heading.append(word)

    def shown(self, text: str) -> str:
        """Pad a text to the column's width."""
        return text.rjust(self.width) if self.right else text.ljust(self.width)


def _groups(columns: Sequence[_Column], room: int) -> Iterator[list[_Column]]:
    """Group the columns that fit beside each other, at least one a group."""
    group: list[_Column] = []
    used = -len(_GAP)
    for column in columns:
        used += len(_GAP) + column.width
        if group and used > room:
            yield group
            group, used = [], column.width
        group.append(column)
    yield group


def _lines(columns: Sequence[_Column]) -> Iterator[str]:
    height = max(len(column.heading) for column in columns)
    for line in range(height):
        words = [([""] * (height - len(column.heading)) + column.heading)[line] for column in columns]
        yield _GAP.join(column.shown(word) for column, word in zip(columns, words, strict=True)).rstrip()
    for row in range(len(columns[0].cells)):
        yield _GAP.join(column.shown(column.cells[row]) for column in columns).rstrip()


def _numbers(values: Sequence[float | None]) -> list[str]:
    """Format the numbers of a column with equal decimal places; 0 and columns of whole numbers have none.

    The largest has four significant digits, and the smallest two where four places are enough for that.
    """
    sizes = [abs(value) for value in values if value]
    places = 0
    if not all(size.is_integer() for size in sizes):
        places = max(min(6, _places(max(sizes), 4)), min(4, _places(min(sizes), 2)))
    return ["-" if value is None else f"{value:,.{places if value else 0}f}" for value in values]


def _places(size: float, digits: int) -> int:
    """Return the decimal places for this many significant digits."""
    return max(0, digits - 1 - math.floor(math.log10(size)))


def _wrapped(start: str, words: Sequence[str], width: int) -> Iterator[str]:
    """Join words by commas in lines of at most `width` where possible; further lines are indented."""
    line = start
    for number, word in enumerate(words):
        more = word + ("," if number < len(words) - 1 else "")
        if line not in (start, "    ") and len(line) + len(more) > width:
            yield line.rstrip()
            line = "    "
        line += more + " "
    yield line.rstrip()
