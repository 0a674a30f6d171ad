"""What a request costs in bytecodes, out of the laps that a worker counted."""

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
    """What a worker did in `seconds` with very few `requests`, by root."""

    seconds: float
    requests: int
    counts: dict[str, int]


def baseline(rows: Iterable[FunctionLaps], seconds: float, requests: int) -> Baseline:
    """Sum up a count without load."""
    counts: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        counts[row.root] += sum(row.laps)
    return Baseline(seconds, requests, dict(counts))


def prices(
    rows: Sequence[FunctionLaps],
    base: Baseline,
    *,
    seconds: float,
    lap_requests: int,
    undisturbed: Sequence[Sequence[int]],
) -> list[list[FunctionPrice]]:
    """Return what one request costs, by function, dearest first, for each kind of request.

    `rows` have laps of `lap_requests` each, and one lap in which what was put off was done; they took `seconds`.
    `undisturbed` are the numbers of the laps that tell a price, by kind.
    What runs in most laps counts as in one of the cheapest of those: the rest have background work in them, or what
    happens so many times a second. What is done for many requests at once (records are written, metrics summed up)
    counts by its sum, less that of the baseline. Loops that do not do more under load do not count.
    """
    roots: defaultdict[str, list[FunctionLaps]] = defaultdict(list)
    for row in rows:
        if row.module.partition(".")[0] != __name__.partition(".")[0]:
            roots[row.root].append(row)
    found: list[_Found] = [defaultdict(float) for _ in undisturbed]
    for root, functions in roots.items():
        laps = [sum(column) for column in zip(*(row.laps for row in functions), strict=True)]
        expected = base.counts.get(root, 0) * seconds / base.seconds
        if sum(laps) < _BACKGROUND * expected:
            continue
        asked = laps[:-1]
        put_off = laps[-1] * len(asked) > _PUT_OFF * sum(asked)
        each = not put_off and sum(1 for lap in asked if lap) >= _MOST * len(asked)
        requests = lap_requests * len(asked) - base.requests * seconds / base.seconds
        for row in functions:
            shared = sum(row.laps) * (1 - expected / sum(laps)) / requests
            for total, numbers in zip(found, undisturbed, strict=True):
                cheapest = sorted(row.laps[number] for number in numbers)
                bytecodes = cheapest[int(len(cheapest) * _CHEAP)] / lap_requests if each else shared
                total[row.module, row.function, row.line] += bytecodes
    return [_sorted(total) for total in found]


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
