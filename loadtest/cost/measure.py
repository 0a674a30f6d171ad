"""Measures scenarios: each kind of count in a gateway of its own, so that none is in another's way."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from loadtest.cost import instructions, system_calls, wire
from loadtest.cost.count_bytecodes import count_bytecodes
from loadtest.cost.count_outside import count_instructions, count_wire_and_calls
from loadtest.cost.price import Price, Prices
from loadtest.cost.scenarios import Scenario
from loadtest.load.processes import BenchError
from loadtest.load.track import Track

#: Kinds of counts, by their names on the command line.
KINDS: Final = {"bytecodes": count_bytecodes, "wire": count_wire_and_calls, "instructions": count_instructions}


def measure(
    scenarios: Sequence[Scenario], kinds: Sequence[str], show: Callable[[str, float, int], None] | None = None
) -> Prices:
    """Return the prices of scenarios. `show` gets the progress, see `Track`. Raises BenchError."""
    unavailable = instructions.missing()
    if unavailable and list(kinds) == ["instructions"]:
        raise BenchError(unavailable)
    wanted = [kind for kind in kinds if kind != "instructions" or unavailable is None]
    groups = [list(group) for _, group in groupby(scenarios, key=lambda scenario: scenario.setup)]
    track = Track(len(groups) * len(wanted), show)
    found: Prices = {}
    for group in groups:
        for kind in wanted:
            track.at(f"{group[0].setup.name}: starting a gateway")
            for name, price in KINDS[kind](group, track.at).items():
                known = found.setdefault(name, Price())
                found[name] = Price(price.bytecodes or known.bytecodes, {**known.counts, **price.counts})
            track.part_done()
    return found


def left_out(kinds: Sequence[str]) -> list[str]:
    """Return what cannot be counted on this machine, and why."""
    missing = {"wire": (wire.missing(), system_calls.missing()), "instructions": (instructions.missing(),)}
    return [why for kind in kinds for why in missing.get(kind, ()) if why is not None]
