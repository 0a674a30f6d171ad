"""The price of a scenario: counts for a request and, of streams, for a token."""

from collections.abc import Mapping
from typing import Final

import msgspec

from loadtest.cost.bytecodes import FunctionPrice, by_package, by_part


class Bytecodes(msgspec.Struct, frozen=True):
    """Bytecodes by package, by package two levels deep or library, and by function."""

    total: float
    packages: Mapping[str, float]
    parts: Mapping[str, float]
    functions: list[FunctionPrice]


class Price(msgspec.Struct):
    """The counts of one request or token, by name; `bytecodes` None: they were not counted."""

    bytecodes: Bytecodes | None = None
    counts: dict[str, float] = {}


#: By scenario; of streams by the scenario with one of these behind it.
Prices = dict[str, Price]
REQUEST: Final = " request"
TOKEN: Final = " token"
#: A count of a stream's request: the tokens that its answer has, whose price has been taken from that of the request.
TOKENS: Final = "tokens"


def summed(functions: list[FunctionPrice]) -> Bytecodes:
    """Sum up functions."""
    packages = by_package(functions)
    return Bytecodes(sum(packages.values()), packages, dict(by_part(functions)), functions)


def without_tokens(
    short: Mapping[str, float], long: Mapping[str, float], tokens: tuple[int, int]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the counts of a request without its tokens, and of a token, out of two answers of so many tokens."""
    few, many = tokens
    names = [*short, *(name for name in long if name not in short)]
    token = {name: (long.get(name, 0.0) - short.get(name, 0.0)) / (many - few) for name in names}
    return {name: short.get(name, 0.0) - few * token[name] for name in names}, token
