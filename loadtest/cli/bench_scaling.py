"""`penstock bench scaling`: compares scalers of fleets on a load, in virtual time."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from loadtest.cli.bench_arguments import count, names, number, output_file
from loadtest.cli.bench_outcome import missing_library, options_as_json
from observability.terminal import fail

if TYPE_CHECKING:
    from loadtest.simulation.scaling.calibration import Calibration
    from loadtest.simulation.scaling.load_lengths import Lengths
    from loadtest.simulation.scaling.scaling_load import ScalingLoad
    from loadtest.simulation.scaling.scaling_study import Scenario
    from loadtest.simulation.scaling.virtual_pool import VirtualPool
    from protos.types import Shape

_COMMAND = "bench scaling"
_NAMED = ("llmd-ramp", "flash-crowd", "holiday", "holiday-ends", "diurnal")
_DAY = 86_400.0
#: Most replicas of a pool, over those that the peak needs.
_HEADROOM = 2


def register(benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the `scaling` benchmark."""
    parser = benchmarks.add_parser("scaling", help="scalers of fleets on a load, in virtual time")
    parser.add_argument(
        "--load",
        required=True,
        metavar="NAME|FILE.csv",
        help=f"{', '.join(_NAMED)}, or rates over time, scaled to --peak-replicas: start_s,requests_per_s",
    )
    parser.add_argument(
        "--against",
        type=names,
        default=("static", "hpa", "kpa", "apa", "dynamo", "llmd", "wva"),
        metavar="NAME,...",
        help="scalers to compare with (default: all)",
    )
    parser.add_argument(
        "--lengths",
        metavar="FILE.csv|N,N",
        help="quantiles of lengths, or prompt and answer tokens (default: 1000,250)",
    )
    parser.add_argument("--days", type=_days, metavar="N,N", help="part of the load; what is before it is history")
    parser.add_argument("--profile", metavar="NAME", help="model of the replicas (default: llama-3.1-70b)")
    parser.add_argument(
        "--shapes", type=names, metavar="tp=N[:ep=N]|...", help="a pool of each, comma-separated (default: tp=4)"
    )
    parser.add_argument("--speed", type=number, default=1.0, metavar="N", help="of replicas, over the engine model's")
    parser.add_argument(
        "--peak-replicas", type=number, default=20.0, metavar="N", help="of the first shape at the peak (default: 20)"
    )
    parser.add_argument("--min", type=count, metavar="N", help="replicas of the first pool at least (default: 1)")
    parser.add_argument("--max", type=count, metavar="N", help="replicas of a pool at most (default: twice the peak's)")
    parser.add_argument("--startup-seconds", type=number, metavar="N", help="of a replica (default: 120)")
    parser.add_argument(
        "--gpu-price",
        type=_prices,
        default=(2.5,),
        metavar="N[,N...]",
        help="US dollars a GPU-hour, of all shapes or of each (default: 2.5)",
    )
    parser.add_argument("--spot-max", type=int, default=0, metavar="N", help="replicas of a pool on spot (default: 0)")
    parser.add_argument(
        "--spot-price", type=number, metavar="N", help="US dollars a GPU-hour (default: 0.35 of --gpu-price)"
    )
    parser.add_argument(
        "--interruptions", type=number, default=0.0, metavar="N", help="of a spot replica in an hour (default: 0)"
    )
    parser.add_argument(
        "--spot-lost-at",
        type=number,
        metavar="N",
        help="seconds after which all spot replicas get their notice at once",
    )
    parser.add_argument(
        "--lose", action="store_true", help="what runs on a preempted replica at its end is lost (default: it moves)"
    )
    parser.add_argument("--budget", type=number, metavar="N", help="US dollars an hour, for ours")
    parser.add_argument("--level", choices=("requests", "fluid"), help="default: fluid from 100,000 requests on")
    parser.add_argument(
        "--every",
        type=number,
        metavar="N",
        help="seconds between rounds (default: 5; fluid 15, or 30 from two days on)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn (default: 0)")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="also write the results as JSON")
    parser.add_argument("--plot", type=output_file, metavar="FILE.png", help="also draw them over time")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        from loadtest.reports.console import console, progress_bar, write_json
        from loadtest.simulation.scaling.scaling_plot import draw_scaling
        from loadtest.simulation.scaling.scaling_report import print_scaling
        from loadtest.simulation.scaling.scaling_study import check_names, contender_names, measured, run_scaling_study
    except ModuleNotFoundError as error:
        return missing_library(error)
    try:
        # Before replicas are measured, which takes seconds.
        check_names(arguments.against)
        scenario, known = _scenario(arguments)
        names = contender_names(arguments.against, scenario)
        found = measured(scenario, known)
        with progress_bar() as show:
            results = run_scaling_study(found, names, show)
        out = console()
        print_scaling(found, results, out)
        if arguments.json:
            write_json(arguments.json, "scaling", results, options_as_json(arguments))
        if arguments.plot:
            slo = scenario.load.slo
            goodput = found.calibrations[scenario.pools[0].name].goodput(slo.in_time).rate
            needed = goodput if len(scenario.pools) == 1 else 0.0
            draw_scaling(results, scenario, needed, arguments.plot)
            out.print(f"Drawn in {arguments.plot}")
    except ModuleNotFoundError as error:
        return missing_library(error)
    except (OSError, ValueError) as error:
        return fail(_COMMAND, str(error))
    return 0


def _scenario(arguments: argparse.Namespace) -> "tuple[Scenario, dict[str, Calibration]]":
    """Make the scenario from the options, and what of its pools was measured for that.

    Raises:
        ValueError: A line for the user.
    """
    import msgspec

    from loadtest.simulation.scaling.calibration import calibrate
    from loadtest.simulation.scaling.named_loads import NAMED
    from loadtest.simulation.scaling.scaling_study import FEW_REQUESTS, Scenario

    load = _load(arguments, NAMED)
    ramp = arguments.load == "llmd-ramp"
    if ramp and not arguments.shapes and not arguments.profile:
        # Eight of these serve 11.6 requests/s of this load, 96.5 % in time: 1.45 each, as those of llm-d's runs.
        shapes, startup, least, most = ["tp=2"], 100.0, 3, 8
    else:
        shapes, startup, least, most = list(arguments.shapes or ("tp=4",)), 120.0, 1, 0
    startup = arguments.startup_seconds or startup
    prices = arguments.gpu_price * len(shapes) if len(arguments.gpu_price) == 1 else arguments.gpu_price
    if len(prices) != len(shapes):
        raise ValueError(f"--gpu-price: {len(prices)} prices for {len(shapes)} shapes")
    pools = [_pool(arguments, shape, price, startup) for shape, price in zip(shapes, prices, strict=True)]
    known: dict[str, Calibration] = {}
    if not ramp:
        known[pools[0].name] = calibrate(pools[0], load.lengths, load.slo)
        goodput = known[pools[0].name].goodput(load.slo.in_time).rate
        # Those with names are relative to their peak, or to that of the days before them.
        peak = 1.0 if arguments.load in NAMED else load.curve.peak
        factor = arguments.peak_replicas * goodput / peak
        history = load.history.scaled(factor) if load.history else None
        load = msgspec.structs.replace(load, curve=load.curve.scaled(factor), history=history)
    least, most = arguments.min or least, arguments.max or most or round(_HEADROOM * arguments.peak_replicas)
    if least > most:
        raise ValueError(f"--min {least} is more than --max {most}")
    bounded = []
    for place, pool in enumerate(pools):
        scaling = msgspec.structs.replace(
            pool.scaling, min=0 if place else least, max=most, spot_max=min(arguments.spot_max, most)
        )
        bounded.append(msgspec.structs.replace(pool, scaling=scaling))
    level: Literal["requests", "fluid"] = arguments.level or (
        "requests" if load.curve.requests <= FEW_REQUESTS else "fluid"
    )
    scenario = Scenario(
        load=load,
        pools=bounded,
        level=level,
        every=arguments.every or _every(level, load.curve.end),
        seed=arguments.seed,
        moves=not arguments.lose,
        budget=arguments.budget,
    )
    return scenario, known


def _every(level: str, seconds: float) -> float:
    """Return the seconds between rounds: a week has half a million of them at one a second."""
    if level == "requests":
        return 5.0
    return 15.0 if seconds <= 2 * _DAY else 30.0


def _load(arguments: argparse.Namespace, named: Any) -> "ScalingLoad":
    import msgspec

    from loadtest.simulation.scaling.load_lengths import equal_lengths
    from loadtest.simulation.scaling.scaling_load import ScalingLoad, read_rates

    if arguments.load in named:
        load: ScalingLoad = named[arguments.load]()
        if arguments.lengths:
            load = msgspec.structs.replace(load, lengths=_lengths(arguments.lengths))
    else:
        path = Path(arguments.load)
        lengths = _lengths(arguments.lengths) if arguments.lengths else equal_lengths(1000, 250)
        load = ScalingLoad(name=path.stem, curve=read_rates(path), lengths=lengths)
    if not arguments.days:
        return load
    curve = load.curve
    start, end = (day * _DAY for day in arguments.days)
    part = curve.cut(start, end)
    if len(part.starts) < 2:
        raise ValueError(f"--days: the load has no two windows between day {start / _DAY:g} and day {end / _DAY:g}")
    history = curve.cut(0.0, start) if start else load.history
    return msgspec.structs.replace(load, curve=part, history=history)


def _lengths(text: str) -> "Lengths":
    from loadtest.simulation.scaling.load_lengths import equal_lengths, read_lengths

    prompt, comma, output = text.partition(",")
    if comma and prompt.isdecimal() and output.isdecimal() and int(prompt) and int(output):
        return equal_lengths(int(prompt), int(output))
    if comma:
        raise ValueError(f"--lengths: {text!r}: expected a file, or prompt and answer tokens as N,N")
    return read_lengths(Path(text))


def _pool(arguments: argparse.Namespace, shape: str, price: float, startup: float) -> "VirtualPool":
    from loadtest.simulation.scaling.virtual_pool import VirtualPool
    from replicas.controller.scaling_settings import PoolScaling
    from replicas.profiles import PROFILES

    profile = arguments.profile or "llama-3.1-70b"
    if profile not in PROFILES:
        raise ValueError(f"--profile: no profile {profile}; there are {', '.join(sorted(PROFILES))}")
    parsed = _shape(shape)
    spot = arguments.spot_price if arguments.spot_price is not None else 0.35 * price
    pool = VirtualPool(
        scaling=PoolScaling(
            name=shape.replace("=", "").replace(":", "-"),
            shape=parsed,
            min=1,
            max=1,
            price=price * parsed.gpus,
            spot_price=spot * parsed.gpus if arguments.spot_max else None,
            startup_seconds=startup,
        ),
        profile=profile,
        speed=arguments.speed,
        interruptions_per_hour=arguments.interruptions,
        spot_lost_at=float("inf") if arguments.spot_lost_at is None else arguments.spot_lost_at,
    )
    try:
        assert pool.limits and pool.timer
    except ValueError as error:
        raise ValueError(f"--shapes: {shape}: {error}") from error
    return pool


def _shape(text: str) -> "Shape":
    from protos.types import Shape

    fields = dict(part.partition("=")[::2] for part in text.split(":"))
    if not set(fields) <= {"tp", "ep", "pp"} or not all(value.isdecimal() and int(value) for value in fields.values()):
        raise ValueError(f"--shapes: {text!r}: expected tp=N[:ep=N][:pp=N]")
    return Shape(**{name: int(value) for name, value in fields.items()})


def _prices(text: str) -> tuple[float, ...]:
    prices = tuple(number(part) for part in text.split(","))
    if min(prices) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected positive prices")
    return prices


def _days(text: str) -> tuple[float, float]:
    start, _, end = text.partition(",")
    try:
        days = float(start), float(end)
    except ValueError:
        days = (0.0, 0.0)
    if not 0 <= days[0] < days[1]:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a first day, from 0 on, and a later one")
    return days
