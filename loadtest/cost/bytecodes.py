"""Compute a request's bytecodes from the laps that a worker counted."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from loadtest.cost.bytecode_counter import FunctionLaps

#: The project's packages; what any other module executes is the libraries'.
PACKAGES: Final = ("gateway", "routing", "protos", "observability", "safety")
LIBRARIES: Final = "libraries"
#: The share of the laps in which something runs that is done for each request, and not for many at once.
_MOST: Final = 0.75
#: The part of the laps that are cheaper than the one whose price counts.
_CHEAP: Final = 0.1
#: The parts of a lap with streams.
_PARTS: Final = 3
#: The share of a lap's work that is done after the last answer where work is put off; settling takes half of a lap's.
_PUT_OFF: Final = 0.7
#: What runs less than this many times as often under load as without is no work of requests.
_BACKGROUND: Final = 2.0


_Found = defaultdict[tuple[str, str, int], float]


class FunctionPrice(msgspec.Struct, frozen=True):
    """Bytecodes of one function for one request."""

    module: str
    function: str
    line: int
    bytecodes: float

    @property
    def key(self) -> str:
        """The function's name in reports and in comparisons."""
        return f"{self.module}:{self.function}:{self.line}"

    def at(self, bytecodes: float) -> "FunctionPrice":
        """Return the same function with another price."""
        return msgspec.structs.replace(self, bytecodes=bytecodes)

    @property
    def package(self) -> str:
        """One of the project's packages, or the libraries."""
        top = self.module.partition(".")[0]
        return top if top in PACKAGES else LIBRARIES

    @property
    def part(self) -> str:
        """The package two levels deep, or the library."""
        top, _, rest = self.module.partition(".")
        return f"{top}.{rest.partition('.')[0]}" if top in PACKAGES and rest else top


class Baseline(msgspec.Struct, frozen=True):
    """The bytecodes of a worker with very few `requests` within `seconds`, by root."""

    seconds: float
    requests: int
    counts: dict[str, int]


def baseline(rows: Iterable[FunctionLaps], seconds: float, requests: int) -> Baseline:
    """Sum up a count without load."""
    counts: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        counts[row.root] += sum(row.laps)
    return Baseline(seconds, requests, dict(counts))


class Laps(msgspec.Struct, frozen=True):
    """The laps of a count. After them comes one in which all was done that had been put off; all took `seconds`.

    `undisturbed` are the numbers of the laps that tell a price. Each lap has `requests`. With `tokens`, each counts as
    three: until all streams have tokens, then so many tokens as are told here for each lap, and the rest.
    """

    seconds: float
    requests: int
    undisturbed: list[int]
    tokens: list[float] = []


def prices(rows: Sequence[FunctionLaps], base: Baseline, laps: Laps) -> tuple[list[FunctionPrice], list[FunctionPrice]]:
    """Return what one request costs, with its tokens, and what one token costs; by function, dearest first.

    What runs in most laps counts as in one of the cheapest laps: the rest have background work in them, or what happens
    so many times a second. (Laps with streams are few and long, and what happens regularly happens in all of them:
    there it is the middle one.) What is done for many requests at once (records are written, metrics summed up) counts
    by its sum, less that of the baseline. Loops that do not do more under load do not count.
    """
    roots: defaultdict[str, list[FunctionLaps]] = defaultdict(list)
    for row in rows:
        if row.module.partition(".")[0] != __name__.partition(".")[0]:
            roots[row.root].append(row)
    request: _Found = defaultdict(float)
    token: _Found = defaultdict(float)
    scale = laps.seconds / base.seconds
    for root, functions in roots.items():
        of_root = _whole([sum(column) for column in zip(*(row.laps for row in functions), strict=True)], laps)
        total, expected = sum(of_root), base.counts.get(root, 0) * scale
        if total < _BACKGROUND * expected:
            continue
        *asked, rest = of_root
        if rest * len(asked) > _PUT_OFF * sum(asked) or sum(1 for lap in asked if lap) < _MOST * len(asked):
            share = (1 - expected / total) / (laps.requests * len(asked) - base.requests * scale)
            for row in functions:
                request[_function(row)] += sum(row.laps) * share
            continue
        for row in functions:
            whole = _whole(row.laps, laps)
            request[_function(row)] += _typical([whole[number] / laps.requests for number in laps.undisturbed], laps)
            if laps.tokens:
                steady = row.laps[1:-1:_PARTS]
                each = [steady[number] / laps.tokens[number] for number in laps.undisturbed]
                token[_function(row)] += _typical(each, laps)
    return _sorted(request), _sorted(token)


def _whole(counts: Sequence[int], laps: Laps) -> list[int]:
    """Add up the parts of laps."""
    parts = _PARTS if laps.tokens else 1
    return [*(sum(counts[at : at + parts]) for at in range(0, len(counts) - 1, parts)), counts[-1]]


def _typical(values: Sequence[float], laps: Laps) -> float:
    return sorted(values)[int(len(values) * (0.5 if laps.tokens else _CHEAP))]


def _function(row: FunctionLaps) -> tuple[str, str, int]:
    return row.module, row.function, row.line


def _sorted(found: _Found) -> list[FunctionPrice]:
    made = [FunctionPrice(*function, bytecodes) for function, bytecodes in found.items() if bytecodes]
    return sorted(made, key=lambda price: -price.bytecodes)


def by_package(found: Iterable[FunctionPrice]) -> dict[str, float]:
    """Sum prices up by package."""
    total = dict.fromkeys((*PACKAGES, LIBRARIES), 0.0)
    for price in found:
        total[price.package] += price.bytecodes
    return total


def by_part(found: Iterable[FunctionPrice]) -> Mapping[str, float]:
    """Sum prices up by package two levels deep, and by library; dearest first."""
    total: defaultdict[str, float] = defaultdict(float)
    for price in found:
        total[price.part] += price.bytecodes
    return dict(sorted(total.items(), key=lambda item: -item[1]))
