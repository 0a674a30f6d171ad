"""`penstock bench simulate`: compares routing policies on a simulated fleet, in virtual time."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from loadtest.cli.bench_arguments import ascending, count, names, number, output_file
from loadtest.cli.bench_outcome import missing_library, options_as_json
from observability.terminal import fail

if TYPE_CHECKING:
    from loadtest.simulation.simulated_fleet import Fleet
    from loadtest.simulation.study import Study
    from routing.contracts.heatmap import Heatmap

_COMMAND = "bench simulate"
_LOWEST, _HIGHEST = 0.01, 10_000.0


def register(benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the `simulate` benchmark."""
    parser = benchmarks.add_parser("simulate", help="routing policies on a simulated fleet, in virtual time")
    parser.add_argument(
        "--fleet", type=Path, required=True, metavar="FILE.yaml", help="its pools; a gateway's configuration will do"
    )
    load = parser.add_mutually_exclusive_group(required=True)
    load.add_argument("--trace", type=Path, metavar="FILE", help="Azure's CSV or Mooncake's JSON lines")
    load.add_argument(
        "--synthetic",
        type=_fields,
        metavar="NAME=N,...",
        help="drawn requests: prompt_tokens, output_tokens, variation, prefixes, prefix_tokens",
    )
    parser.add_argument(
        "--policies", type=names, metavar="NAME,...", help="what is compared (default: all but paced_*)"
    )
    parser.add_argument(
        "--rates", type=ascending, default=(), metavar="N,...", help="requests/s (default: the trace's own)"
    )
    parser.add_argument("--goodput", action="store_true", help="search the highest rate at which 95 %% are in time")
    parser.add_argument(
        "--between", type=_bounds, default=(_LOWEST, _HIGHEST), metavar="N,N", help="rates that bound this search"
    )
    parser.add_argument("--requests", type=count, metavar="N", help="how many are played (default: all of the trace)")
    parser.add_argument(
        "--arrivals",
        choices=("trace", "poisson", "bursty"),
        help="as in the trace (its default), independent (the default without one), or in bursts",
    )
    parser.add_argument("--workers", type=count, default=1, metavar="N", help="gateway workers that share the load")
    parser.add_argument(
        "--expected-output",
        choices=("learned", "oracle"),
        default="learned",
        help="what policies are told of an answer's length (default: learned from earlier ones)",
    )
    parser.add_argument(
        "--max-tokens",
        type=count,
        metavar="N",
        help="that every request asks for at most (default: the power of two that covers all answers)",
    )
    parser.add_argument("--heatmap", type=Path, metavar="FILE.json", help="of `penstock bench heatmap`, for policies")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn (default: 0)")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="also write the results as JSON")
    parser.add_argument("--plot", type=output_file, metavar="FILE.png", help="also draw them over the rates")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        from loadtest.reports.console import console, progress_bar, write_json
        from loadtest.simulation.simulation_plots import draw_study
        from loadtest.simulation.simulation_report import print_study
        from loadtest.simulation.study import run_study
    except ModuleNotFoundError as error:
        return missing_library(error)
    if arguments.plot and len(arguments.rates) < 2:
        return fail(_COMMAND, "--plot needs at least two --rates")
    try:
        study = _study(arguments)
        with progress_bar() as show:
            results = run_study(study, show)
        out = console()
        print_study(results, out)
        if arguments.json:
            write_json(arguments.json, "simulate", results, options_as_json(arguments))
        if arguments.plot:
            source = arguments.trace.name if arguments.trace else "synthetic requests"
            title = f"{source} on {arguments.fleet.name} ({study.fleet.gpus} GPUs)"
            draw_study(results, arguments.plot, title, study.settings.targets.tpot)
            out.print(f"Drawn in {arguments.plot}")
    except ModuleNotFoundError as error:
        return missing_library(error)
    except (OSError, ValueError) as error:
        return fail(_COMMAND, str(error))
    return 0


def _study(arguments: argparse.Namespace) -> "Study":
    """Make the study from the options. Raises ValueError with a line for the user, or OSError."""
    import msgspec

    from loadtest.simulation.baselines import POLICIES, UNPACED
    from loadtest.simulation.simulated_fleet import read_fleet
    from loadtest.simulation.study import Study
    from loadtest.simulation.synthetic import Synthetic
    from loadtest.simulation.workload import WorkloadSpec
    from routing.contracts.heatmap import HeatmapError
    from routing.contracts.policy_settings import PolicySettings

    policies = arguments.policies or tuple(sorted(UNPACED))
    for name in policies:
        if name not in POLICIES:
            raise ValueError(f"--policies: there is no policy {name}; there are {', '.join(sorted(POLICIES))}")
    if arguments.trace is None and arguments.arrivals == "trace":
        raise ValueError("--arrivals trace needs a --trace")
    fleet = read_fleet(arguments.fleet)
    try:
        heatmap = _heatmap(arguments.heatmap, fleet)
        source = str(arguments.trace) if arguments.trace else msgspec.convert(arguments.synthetic, Synthetic)
    except HeatmapError as error:
        raise ValueError(str(error)) from error
    except msgspec.ValidationError as error:
        raise ValueError(f"--synthetic: {error}") from error
    arrivals = arguments.arrivals or ("trace" if arguments.trace else "poisson")
    lowest, highest = arguments.between
    return Study(
        fleet,
        WorkloadSpec(source, arguments.requests, arrivals, arguments.seed),
        policies,
        arguments.rates,
        goodput=arguments.goodput,
        lowest=lowest,
        highest=highest,
        workers=arguments.workers,
        oracle=arguments.expected_output == "oracle",
        max_tokens=arguments.max_tokens,
        settings=PolicySettings(heatmap=heatmap, seed=arguments.seed),
    )


def _heatmap(path: Path | None, fleet: "Fleet") -> "Heatmap | None":
    """Load the heatmap and check it against the fleet's shapes. Raises HeatmapError."""
    from protos.types import Role
    from routing.contracts.heatmap import HeatmapError, load_heatmap

    if path is None:
        return None
    heatmap = load_heatmap(path)
    shapes = (
        [pool.value for pool in fleet.pools if pool.role is role] for role in (Role.BOTH, Role.PREFILL, Role.DECODE)
    )
    if gap := heatmap.gap(*shapes):
        raise HeatmapError(f"{path}: {gap}")
    return heatmap


def _bounds(text: str) -> tuple[float, float]:
    bounds = ascending(text)
    if len(bounds) != 2:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a lower and a higher rate")
    return bounds[0], bounds[1]


def _fields(text: str) -> dict[str, float]:
    """Parse NAME=N,...; whole numbers become integers."""
    fields: dict[str, float] = {}
    for part in text.split(","):
        name, equals, digits = part.partition("=")
        if not equals or name in fields:
            raise argparse.ArgumentTypeError(f"{part!r}: expected NAME=N, each name once")
        value = number(digits)
        fields[name] = int(value) if value.is_integer() else value
    return fields
