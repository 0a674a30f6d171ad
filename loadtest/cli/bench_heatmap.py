"""`penstock bench heatmap`: profiles where a prefill/decode pair beats a colocated replica, to a file and a plot."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from loadtest.cli.bench_arguments import ascending, ascending_counts, count, output_file
from loadtest.cli.bench_outcome import missing_library
from observability.terminal import fail, table
from protos.types import Shape

if TYPE_CHECKING:
    from routing.contracts.heatmap import Comparison, HeatmapFile

_DEGREES = ("tp", "ep", "pp")


def register(benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the `heatmap` benchmark."""
    parser = benchmarks.add_parser("heatmap", help="where a prefill/decode pair beats a colocated replica")
    parser.add_argument("--model", required=True, metavar="PROFILE", help="published model to simulate")
    parser.add_argument("--name", help="what the configuration calls the model (default: the profile's name)")
    parser.add_argument(
        "--colocated",
        type=_shape,
        action="append",
        required=True,
        metavar="SHAPE",
        help="such as tp=4 or tp=8:ep=2; may be repeated",
    )
    parser.add_argument(
        "--pair",
        type=_pair,
        action="append",
        required=True,
        metavar="PREFILL,DECODE",
        help="two shapes, such as tp=4,tp=4; may be repeated",
    )
    parser.add_argument(
        "--colocated-replicas", type=count, metavar="N", help="that share the load a pair gets (default: 1)"
    )
    parser.add_argument("--rates", type=ascending, metavar="N,...", help="requests/s (default: 0.5,1,2,4)")
    parser.add_argument("--prefill-tokens", type=ascending_counts, metavar="N,...", help="rows (default: 128 to 16384)")
    parser.add_argument("--ratios", type=ascending, metavar="N,...", help="columns (default: 0.0625 to 8)")
    parser.add_argument("--requests", type=count, help="in the batch of each cell and rate (default: 48)")
    parser.add_argument(
        "--output",
        type=output_file,
        default=Path("heatmap.json"),
        metavar="FILE.json",
        help="the heatmap (default: %(default)s)",
    )
    parser.add_argument("--plot", type=output_file, metavar="FILE.png", help="also draw it")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        from loadtest.reports.console import progress_bar
        from loadtest.simulation.heatmap_plot import draw_heatmap
        from loadtest.simulation.heatmap_search import Plan, profile
        from routing.contracts.heatmap import save_heatmap
    except ModuleNotFoundError as error:
        return missing_library(error)
    given = {
        name: value
        for name in ("rates", "prefill_tokens", "ratios", "requests", "colocated_replicas")
        if (value := getattr(arguments, name)) is not None
    }
    try:
        plan = Plan(arguments.model, **given)
        with progress_bar() as show:
            file = profile(plan, arguments.colocated, arguments.pair, arguments.name, show)
        save_heatmap(file, arguments.output)
        if arguments.plot:
            draw_heatmap(file, arguments.plot)
    except ModuleNotFoundError as error:
        return missing_library(error)
    except (OSError, ValueError) as error:
        return fail("bench heatmap", str(error))
    for comparison in file.comparisons:
        print("\n".join(_shown(file, comparison, plan.colocated_replicas)))
    print(f"Saved in {arguments.output}" + (f", drawn in {arguments.plot}" if arguments.plot else ""))
    return 0


def _shown(file: "HeatmapFile", comparison: "Comparison", replicas: int) -> list[str]:
    """Format one comparison as a text table, with the number of cells that each side wins."""
    from loadtest.simulation.heatmap_plot import shape_name

    legs = f"{shape_name(comparison.prefill)} prefill + {shape_name(comparison.decode)} decode"
    colocated = shape_name(comparison.colocated)
    whole = f"One {colocated} colocated replica" if replicas == 1 else f"{replicas} {colocated} colocated replicas"
    rows = [("PREFILL \\ RATIO", *(f"{ratio:g}" for ratio in file.ratios))]
    for tokens, row in zip(file.prefill_tokens, comparison.cells, strict=True):
        rows.append((f"{tokens}", *("-" if cell is None else f"{cell:+.2f}" for cell in row)))
    known = [cell for row in comparison.cells for cell in row if cell is not None]
    better = sum(cell > 0 for cell in known)
    return [
        f"{whole} or {legs}: JCT ratio - 1, summed over {len(file.rates)} rates",
        *(f"  {line}" for line in table(rows)),
        f"  the pair is better in {better} of {len(known)} cells",
        "",
    ]


def _shape(text: str) -> Shape:
    degrees: dict[str, int] = {}
    for part in text.split(":"):
        name, equals, value = part.partition("=")
        if not equals or name not in _DEGREES or name in degrees or not value.isascii() or not value.isdigit():
            raise argparse.ArgumentTypeError(f"{text!r} is no shape; write tp=4 or tp=8:ep=2")
        degrees[name] = int(value)
    shape = Shape(**degrees)
    if min(shape.tp, shape.ep, shape.pp) < 1 or shape.tp % shape.ep:
        raise argparse.ArgumentTypeError(f"{text!r}: degrees are at least 1, and ep divides tp")
    return shape


def _pair(text: str) -> tuple[Shape, Shape]:
    prefill, comma, decode = text.partition(",")
    if not comma:
        raise argparse.ArgumentTypeError(f"{text!r} is no pair; write tp=4,tp=4")
    return _shape(prefill), _shape(decode)
