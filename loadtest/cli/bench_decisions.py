"""`penstock bench decisions`: measures the CPU cost of routing decisions and of the prefix index."""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

import msgspec

from loadtest.simulation.baselines import UNPACED
from routing.contracts.policy_settings import PolicySettings

#: Replicas of the measured fleets.
FLEETS = (16, 256)
#: Policies that need a heatmap of the fleet.
_PROFILED = ("combined", "pd_heatmap")


def register(benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the `decisions` benchmark."""
    parser = benchmarks.add_parser("decisions", help="CPU for a routing decision and a look at the prefix index")
    parser.add_argument("--no-index", action="store_true", help="leave the index out, which takes a minute and 1 GB")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from loadtest.load.decision_cost import decision_cost
    from loadtest.load.index_cost import index_cost

    names = [name for name in UNPACED if name not in _PROFILED]
    settings = PolicySettings()
    costs = [[decision_cost(name, partial(UNPACED[name], settings), count) for count in FLEETS] for name in names]
    print("CPU us for a decision among " + " and ".join(f"{count} replicas" for count in FLEETS))
    for row in costs:
        print(f"  {row[0].policy:16}" + "".join(f"{cost.us:8.1f}" for cost in row))
    index = None
    if not arguments.no_index:
        index = index_cost()
        print("\n".join(index.lines()))
    if arguments.json:
        try:
            arguments.json.write_text(json.dumps(msgspec.to_builtins({"decisions": costs, "index": index}), indent=2))
        except OSError as error:
            print(f"penstock bench: {arguments.json}: {error.strerror}", file=sys.stderr)
            return 1
    return 0
