"""`penstock bench`: measures the gateway, simulates fleets, and compares the engine model with published figures.

The `loadtest` package is imported only when a benchmark runs: it needs the extra `bench`.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TypeVar

from loadtest.cli import (
    bench_batches,
    bench_cost,
    bench_decisions,
    bench_heatmap,
    bench_prompts,
    bench_reproduce,
    bench_rollout,
    bench_scaling,
    bench_shadow,
    bench_simulate,
)
from loadtest.cli.bench_outcome import missing_library, options_as_json

_MODES = ("unary", "paced", "stream")
_T = TypeVar("_T")


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `bench` and its benchmarks."""
    parser = subparsers.add_parser("bench", help="measure the gateway")
    benchmarks = parser.add_subparsers(required=True, metavar="BENCHMARK")

    overhead = benchmarks.add_parser(
        "overhead", help="CPU for a request and for a streamed token, memory, added latency"
    )
    _concurrency(overhead, "1,64,256,1024")
    overhead.add_argument("--modes", type=_modes, default=list(_MODES), help="of unary, paced, stream (default: all)")
    overhead.add_argument("--requests", type=_positive, help="answers in each measurement (default: by mode)")
    overhead.add_argument("--repeat", type=_positive, default=1, metavar="K", help="measure K times, give medians")
    overhead.add_argument(
        "--rounds", type=_positive, default=1, metavar="N", help="and N times in turn with the same gateways"
    )
    overhead.add_argument("--limits", action="store_true", help="also measure what limits and a budget add")
    overhead.add_argument(
        "--filters",
        action="store_true",
        help="also measure what safety filters of prompts and answers add; prompts have 1,000 characters then",
    )
    overhead.add_argument(
        "--observability",
        action="store_true",
        help="also measure what metrics, the journal and traces of 1 %% add to a gateway without them",
    )
    overhead.add_argument(
        "--parsing",
        action="store_true",
        help="also measure what it adds to take answers apart: text, thoughts and calls of tools",
    )
    overhead.add_argument(
        "--engine",
        choices=["simulated", "trtllm_grpc", "openai"],
        default="simulated",
        help="what is behind the gateway: simulated replicas by session or by TensorRT-LLM's own gRPC service, or an "
        "upstream with OpenAI's API (default: simulated)",
    )
    overhead.set_defaults(run=_guarded(_overhead))

    breakdown = benchmarks.add_parser("breakdown", help="gateway and engine latency over concurrency, as a picture")
    _concurrency(breakdown, "1,2,4,8,16,32,64,128,256")
    breakdown.add_argument("--output", type=Path, default=Path("breakdown.png"), metavar="FILE.png")
    breakdown.add_argument(
        "--requests-per-concurrency", type=_positive, default=20, metavar="N", help="requests for each client"
    )
    breakdown.add_argument("--max-requests", type=_positive, default=2000, help="most requests at one concurrency")
    breakdown.add_argument("--speed", type=float, default=1.0, help="engine faster than life, to try the command")
    breakdown.set_defaults(run=_guarded(_breakdown))

    soak = benchmarks.add_parser("soak", help="whether a worker's memory stays flat")
    soak.add_argument("--requests", type=_positive, default=200_000)
    soak.add_argument("--warmup", type=_positive, default=20_000, help="requests before the first sample")
    soak.add_argument("--bound-mb", type=float, default=5.0, help="most growth after the warm-up; more exits with 1")
    soak.set_defaults(run=_guarded(_soak))

    model = benchmarks.add_parser("engine-model", help="the simulated engine beside published throughput")
    model.add_argument("--markdown", action="store_true", help="print docs/engine-model.md instead")
    model.set_defaults(run=_engine_model)

    fairness = benchmarks.add_parser("fairness", help="one tenant's flood of long prompts beside another's chats")
    fairness.add_argument(
        "--prompt-tokens",
        type=_positives,
        default=_positives("30000,100000"),
        metavar="N,...",
        help="about how long the flood's prompts are (default: 30000,100000)",
    )
    fairness.add_argument("--flood-clients", type=_positive, default=16, help="each with one request at a time")
    fairness.add_argument("--requests", type=_positive, default=400, help="of the light tenant in each run")
    fairness.add_argument("--context", type=_positive, help="the model's; shorter than the prompts: they are refused")
    fairness.add_argument("--repeat", type=_positive, default=3, metavar="K", help="measure K times, give medians")
    fairness.set_defaults(run=_guarded(_fairness))

    bench_batches.register(benchmarks, _guarded, _positive)
    bench_shadow.register(benchmarks, _guarded, _positive)
    bench_cost.register(benchmarks, _guarded, _positive)
    bench_decisions.register(benchmarks)
    bench_heatmap.register(benchmarks)
    bench_prompts.register(benchmarks, _guarded, _positive, _positives)
    bench_reproduce.register(benchmarks)
    bench_rollout.register(benchmarks)
    bench_scaling.register(benchmarks)
    bench_simulate.register(benchmarks)

    for measured in (overhead, breakdown, soak, fairness):
        measured.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")


def _concurrency(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--concurrency",
        type=_positives,
        default=_positives(default),
        metavar="N,...",
        help=f"clients, each with one request at a time (default: {default})",
    )


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _positives(text: str) -> list[int]:
    return _distinct([_positive(part) for part in text.split(",")])


def _distinct(values: list[_T]) -> list[_T]:
    for value in values:
        if values.count(value) > 1:
            raise argparse.ArgumentTypeError(f"{value} is given twice")
    return values


def _modes(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in _MODES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(_MODES)}")
    return _distinct(names)


def _guarded(benchmark: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Wrap a benchmark: print errors in one line, and end its processes on SIGTERM as on Ctrl-C."""

    def run(arguments: argparse.Namespace) -> int:
        try:
            from loadtest.load.processes import BenchError, require_linux
        except ModuleNotFoundError as error:
            return missing_library(error)
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            require_linux()
            if len(os.sched_getaffinity(0)) == 1:
                print(
                    "penstock bench: WARNING: there is one CPU core for the gateway, the engine and the load. Rates "
                    "and latencies measure all three; only CPU for a request or token means anything.",
                    file=sys.stderr,
                )
            return benchmark(arguments)
        except ModuleNotFoundError as error:
            return missing_library(error)
        except (BenchError, OSError) as error:
            print(f"penstock bench: {error}", file=sys.stderr)
            return 1
        finally:
            signal.signal(signal.SIGTERM, before)

    return run


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _overhead(arguments: argparse.Namespace) -> int:
    from loadtest.load.load_reports import print_added, print_overhead
    from loadtest.load.overhead import overhead
    from loadtest.load.stack import Variant
    from loadtest.reports.console import console, progress_bar, write_json

    asked: dict[Variant, bool] = {
        "limited": arguments.limits,
        "filtered": arguments.filters,
        "observed": arguments.observability,
        "parsed": arguments.parsing,
        "thinking": arguments.parsing,
        "calling": arguments.parsing,
    }
    beside = [variant for variant, wanted in asked.items() if wanted]
    with progress_bar() as show:
        cells, costs = overhead(
            arguments.concurrency,
            arguments.modes,
            requests=arguments.requests,
            repeat=arguments.repeat,
            rounds=arguments.rounds,
            beside=beside,
            engine=arguments.engine,
            show=show,
        )
    out = console()
    print_overhead(cells, arguments.repeat * arguments.rounds, out)
    if costs:
        print_added(costs, out)
    if arguments.json:
        write_json(arguments.json, "overhead", {"loads": cells, "added": costs}, options_as_json(arguments))
    return 1 if any(cell.errors for cell in cells) else 0


def _breakdown(arguments: argparse.Namespace) -> int:
    from loadtest.load.benchmark_plots import draw_breakdown
    from loadtest.load.breakdown import breakdown, engine_description
    from loadtest.load.load_reports import print_breakdown
    from loadtest.reports.console import console, progress_bar, write_json

    with progress_bar() as show:
        bars = breakdown(
            arguments.concurrency,
            per_concurrent=arguments.requests_per_concurrency,
            at_most=arguments.max_requests,
            speed=arguments.speed,
            show=show,
        )
    out = console()
    print_breakdown(bars, out)
    draw_breakdown(bars, arguments.output, engine_description(arguments.speed))
    out.print(f"Drawn in {arguments.output}")
    if arguments.json:
        write_json(arguments.json, "breakdown", bars, options_as_json(arguments))
    return 1 if any(bar.errors for bar in bars) else 0


def _soak(arguments: argparse.Namespace) -> int:
    from loadtest.load.load_reports import print_soak
    from loadtest.load.soak import soak
    from loadtest.reports.console import console, progress_bar, write_json

    with progress_bar() as show:
        result = soak(arguments.requests, warmup=arguments.warmup, bound_mb=arguments.bound_mb, show=show)
    print_soak(result, console())
    if arguments.json:
        write_json(arguments.json, "soak", result, options_as_json(arguments))
    return 0 if result.passed else 1


def _fairness(arguments: argparse.Namespace) -> int:
    from loadtest.load.fairness import fairness
    from loadtest.load.load_reports import print_fairness
    from loadtest.reports.console import console, progress_bar, write_json

    with progress_bar() as show:
        results = fairness(
            arguments.prompt_tokens,
            flood_clients=arguments.flood_clients,
            requests=arguments.requests,
            repeat=arguments.repeat,
            context=arguments.context,
            show=show,
        )
    print_fairness(results, console())
    if arguments.json:
        write_json(arguments.json, "fairness", results, options_as_json(arguments))
    return 1 if any(result.errors for result in results) else 0


def _engine_model(arguments: argparse.Namespace) -> int:
    from loadtest.reproduce import engine_model
    from loadtest.reproduce.published import SATURATED

    if arguments.markdown:
        sys.stdout.write(engine_model.markdown())
        return 0
    try:
        from loadtest.reports.console import console
        from loadtest.reproduce.engine_model_report import print_engine_model
    except ModuleNotFoundError as error:
        return missing_library(error)
    print_engine_model({name: engine_model.saturation(name) for name in SATURATED}, console())
    return 0
