"""The budget: what requests cost when it was written, and what has become dearer since."""

import math
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from loadtest.cost import instructions, wire
from loadtest.cost.bytecodes import FunctionPrice
from loadtest.cost.price import REQUEST, TOKEN, TOKENS, Prices
from loadtest.load.processes import BenchError

#: The budget of this version, which is checked in.
BUDGET_FILE: Final = Path(__file__).with_name("budget.json")
#: A figure that has grown by more is over the budget.
GROWTH: Final = 0.03
#: The shares of a price's bytecodes by which a small package may grow, as no count is more exact: of requests one by
#: one, and of streams, of which some begin a step of the engine sooner or later than others.
_SLACK: Final = 0.005
_STREAM_SLACK: Final = 0.02
#: Counts that are compared besides bytecodes, and by how much they differ from run to run. The others are told, but
#: depend on how threads happen to meet (system calls) or on where memory happens to lie (cache misses).
_COMPARED: Final[Mapping[str, float]] = {
    wire.SCRIPTS: 0.05,
    "bytes from clients": 1.0,
    instructions.INSTRUCTIONS: 2_000.0,
    instructions.ALLOCATIONS: 2.0,
}
_BYTECODES: Final = "bytecodes of "

_Figures = Mapping[str, Mapping[str, float]]


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Figures by price and by name. Bytecodes are those of one minor version of CPython, as in `3.11`."""

    python: str
    prices: dict[str, dict[str, float]]


class Overdraft(msgspec.Struct, frozen=True):
    """A figure that is over the budget."""

    price: str
    figure: str
    budget: float
    now: float

    def __str__(self) -> str:
        grown = f"{self.now / self.budget - 1:+.1%}" if self.budget else "new"
        return f"{self.price}: {self.figure}: {self.budget:,.1f} -> {self.now:,.1f} ({grown})"


def python_version() -> str:
    """Return this interpreter's minor version."""
    return ".".join(platform.python_version_tuple()[:2])


def figures(prices: Prices) -> dict[str, dict[str, float]]:
    """Return the figures of prices that a budget has."""
    found: dict[str, dict[str, float]] = {}
    for name, price in prices.items():
        packages = {} if price.bytecodes is None else price.bytecodes.packages
        named = {f"{_BYTECODES}{package}": count for package, count in packages.items()}
        named |= {count: value for count, value in price.counts.items() if not count.startswith("system call ")}
        found[name] = {figure: round(value, 2 if value < 1000 else 0) for figure, value in named.items()}
    return found


def read_budget(path: Path = BUDGET_FILE) -> Budget:
    """Read a budget. Raises BenchError, which names the file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Budget)
    except (OSError, msgspec.DecodeError) as error:
        raise BenchError(f"the budget {path} cannot be read: {error}") from None


def write_budget(prices: Prices, path: Path = BUDGET_FILE) -> None:
    """Write today's figures, one a line; those that were not counted this time stay as they are. Raises OSError."""
    known: dict[str, dict[str, float]] = {}
    if path.exists() and (before := read_budget(path)).python == python_version():
        known = before.prices
    for name, found in figures(prices).items():
        known[name] = known.get(name, {}) | found
    path.write_bytes(msgspec.json.format(msgspec.json.encode(Budget(python_version(), known))) + b"\n")


def overdrafts(budget: Budget, prices: Prices) -> list[Overdraft]:
    """Return the figures that are over the budget, those that grew most first. What the budget has not is not.

    A stream's price is split into that of its request and that of a token, by the tokens in its middle. How these fall
    into ticks is chance, and what one of the two wins by it the other loses: a figure is over the budget only if the
    whole stream has become dearer too.
    """
    found = []
    every = figures(prices)
    wholes = _whole_streams(budget.prices, every)
    for name, now in every.items():
        before = budget.prices.get(name, {})
        share = _STREAM_SLACK if " stream " in name else _SLACK
        exact = share * sum(value for figure, value in before.items() if figure.startswith(_BYTECODES))
        for figure, value in now.items():
            slack = exact if figure.startswith(_BYTECODES) else _COMPARED.get(figure)
            if figure not in before or slack is None:
                continue
            if value <= before[figure] * (1 + GROWTH) or value - before[figure] <= slack:
                continue
            if wholes.get((name, figure), math.inf) > slack:
                found.append(Overdraft(name, figure, before[figure], value))
    return sorted(found, key=lambda one: one.budget / one.now)


def _whole_streams(before: _Figures, now: _Figures) -> dict[tuple[str, str], float]:
    """Return by how many bytecodes whole streams have become dearer, by price and figure."""
    found = {}
    for name in now:
        token = name.removesuffix(REQUEST) + TOKEN
        if TOKENS not in now[name] or not {name, token} <= before.keys() & now.keys():
            continue
        for figure, value in before[name].items():
            if figure.startswith(_BYTECODES):
                dearer = now[name][figure] - value + now[name][TOKENS] * (now[token][figure] - before[token][figure])
                found[name, figure] = found[token, figure] = dearer
    return found


def grown_functions(before: Iterable[FunctionPrice], now: Iterable[FunctionPrice]) -> list[tuple[str, float, float]]:
    """Return functions with their bytecodes before and now, those that grew most first; lines may have moved."""
    old, new = ({f"{one.module}:{one.function}": one.bytecodes for one in prices} for prices in (before, now))
    grown = [(name, old.get(name, 0.0), value) for name, value in new.items() if value > old.get(name, 0.0)]
    return sorted(grown, key=lambda row: row[1] - row[2])
