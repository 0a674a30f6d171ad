"""`penstock scale`: what is wanted of models that scale and why; sizes set by hand, and pauses."""

import argparse
import shutil
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial

from gateway.cli.registry_access import actor, add_store_action
from gateway.cli.whole_number import whole_number
from gateway.config.settings import Config
from gateway.scaling.scaling_registry import MOST_EXPLAINED, OverrideView, ScalingRegistry, ScalingView
from gateway.scaling.status import FRESH_SECONDS, DecisionRecord, ModelStatus, PoolStatus
from gateway.store.store_client import Store
from observability.printable import printable
from observability.terminal import fitted, print_json, wrapped

_Run = Callable[[ScalingRegistry, argparse.Namespace], Awaitable[int]]
#: Decisions that `explain` shows unless it is told how many.
_SHOWN = 5
_DECISIONS = whole_number(1, MOST_EXPLAINED)


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `scale` and its subcommands."""
    parser = subparsers.add_parser("scale", help="show how models scale, set pools' sizes, pause and resume")
    add = partial(_add_action, parser.add_subparsers(required=True, metavar="ACTION"))
    listing = add("list", _list, "show what is wanted, what runs and what it costs")
    listing.add_argument("--model", metavar="NAME", help="only this model")
    explain = add("explain", _explain, "show the last decisions on a model, with what they were made from")
    explain.add_argument("model", metavar="MODEL")
    explain.add_argument(
        "--last",
        type=_DECISIONS,
        default=_SHOWN,
        metavar="N",
        help="so many decisions (default: %(default)s)",
    )
    setting = add("set", _set, "have a pool of so many replicas, whatever would be wanted")
    setting.add_argument("pool", metavar="POOL")
    setting.add_argument("replicas", metavar="REPLICAS", type=_replicas, help="a number, or auto: what is wanted again")
    setting.add_argument("--model", metavar="NAME", help="the pool's model, where several have such a pool")
    for name, run, meaning in (
        ("pause", _pause, "start and stop nothing of a model; decisions go on being told"),
        ("resume", _resume, "undo a pause"),
    ):
        add(name, run, meaning).add_argument("model", metavar="MODEL")


def _add_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, run: _Run, meaning: str
) -> argparse.ArgumentParser:
    def act(store: Store, config: Config, arguments: argparse.Namespace) -> Awaitable[int]:
        return run(ScalingRegistry(store, config), arguments)

    return add_store_action(actions, "scale", name, act, meaning)


def _replicas(text: str) -> int | None:
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or auto, got {text!r}") from None


async def _list(registry: ScalingRegistry, arguments: argparse.Namespace) -> int:
    view = await registry.view(arguments.model)
    if arguments.json:
        print_json(view)
        return 0
    if not view.models:
        print("no model scales: no pool has a launcher")
        return 0
    width = shutil.get_terminal_size().columns
    blocks = [_controller_line(view)]
    blocks += ["\n".join(map(printable, _block(model, width))) for model in view.models]
    print("\n\n".join(blocks))
    return 0


async def _explain(registry: ScalingRegistry, arguments: argparse.Namespace) -> int:
    found = await registry.decisions(arguments.model, arguments.last)
    if arguments.json:
        print_json({"decisions": found})
        return 0
    if not found:
        print(f"nothing has been decided on {arguments.model} yet")
        return 0
    width = shutil.get_terminal_size().columns
    print("\n\n".join("\n".join(map(printable, _decision(record, width))) for record in found))
    return 0


async def _set(registry: ScalingRegistry, arguments: argparse.Namespace) -> int:
    done = await registry.set_replicas(arguments.model, arguments.pool, arguments.replicas, actor())
    if arguments.replicas is None:
        return _say(done, arguments, f"{arguments.pool} of {done.model} gets what is wanted again")
    return _say(
        done, arguments, f"{arguments.pool} of {done.model} gets {arguments.replicas} replicas, until auto is set"
    )


async def _pause(registry: ScalingRegistry, arguments: argparse.Namespace) -> int:
    done = await registry.pause(arguments.model, actor())
    return _say(
        done, arguments, f"paused {done.model}: nothing is started or stopped, not even for one that has failed"
    )


async def _resume(registry: ScalingRegistry, arguments: argparse.Namespace) -> int:
    return _say(await registry.resume(arguments.model, actor()), arguments, f"{arguments.model} scales")


def _say(done: OverrideView, arguments: argparse.Namespace, words: str) -> int:
    if arguments.json:
        print_json(done)
    else:
        print(f"{words} (advice only: nothing is started or stopped)" if done.mode == "advise" else words)
    return 0


def _controller_line(view: ScalingView) -> str:
    if view.age_seconds is None:
        return "no controller has told anything yet"
    if view.controller is None:
        return f"no controller acts: the last word is {view.age_seconds:.0f} s old, and more than {FRESH_SECONDS:.0f} s"
    since = datetime.fromtimestamp(view.controller.since, UTC)
    return f"controller {printable(view.controller.name)} since {since:%Y-%m-%d %H:%M:%S} UTC"


def _block(model: ModelStatus, width: int) -> Iterator[str]:
    state = {"act": "paused" if model.paused else "scales", "advise": "advice only"}[model.mode]
    yield f"{model.model}: {state}{_costs(model)}"
    header = ("POOL", "SHAPE", "MIN", "MAX", "NEEDED", "WANTED", "READY", "STARTING", "STOPPING", "USD/H", "SET")
    yield from fitted([header, *(_row(pool) for pool in model.pools)], width)
    for pool in model.pools:
        for one in pool.starting:
            yield f"  {one.id}: {one.step}"
        for one in pool.failed:
            yield from wrapped(f"{one.id}: {one.problem}", width)
        if pool.problem:
            yield from wrapped(f"{pool.name}: {pool.problem}", width)
    if model.fixed:
        beside = ", ".join(f"{count} of {name}" for name, count in model.fixed.items())
        yield from wrapped(f"ready in pools without a launcher, and counted: {beside}", width)
    demand = model.demand
    if demand is not None:
        words = (
            f"{demand.requests_per_second:.2f} requests/s in the last {demand.window:.0f} s, of "
            f"{demand.prompt_tokens:.0f} tokens in (cached: {demand.cached_tokens:.0f}) and {demand.output_tokens:.0f} "
            f"out; {demand.in_flight} in flight, {demand.waiting} waiting"
        )
        yield from wrapped(words, width)
    for reason in dict.fromkeys(pool.reason for pool in model.pools if pool.reason):
        yield from wrapped(reason, width)
    for warning in model.warnings:
        yield from wrapped(f"warning: {warning}", width)


def _costs(model: ModelStatus) -> str:
    if model.cost_per_hour is None:
        return ""
    wanted = "" if model.wanted_cost_per_hour is None else f", {model.wanted_cost_per_hour:.2f} as wanted"
    budget = "" if model.budget_per_hour is None else f", budget {model.budget_per_hour:.2f}"
    return f"; {model.cost_per_hour:.2f} USD/h{wanted}{budget}"


def _row(pool: PoolStatus) -> tuple[str, ...]:
    spot = f" ({pool.spot_wanted} spot)" if pool.spot_wanted else ""
    return (
        pool.name,
        pool.shape,
        str(pool.min),
        str(pool.max),
        str(pool.needed),
        f"{pool.wanted}{spot}",
        str(pool.ready),
        str(len(pool.starting)),
        str(len(pool.stopping)),
        "-" if pool.price_per_hour is None else f"{pool.price_per_hour:.2f}",
        "auto" if pool.pinned is None else str(pool.pinned),
    )


def _decision(record: DecisionRecord, width: int) -> Iterator[str]:
    at = datetime.fromtimestamp(record.at, UTC)
    cost = "" if record.cost is None else f", {record.cost:.2f} USD/h"
    pools = ", ".join(f"{name} {pool.wanted} (needed {pool.needed})" for name, pool in record.pools.items())
    advice = "; advice only" if record.mode == "advise" else ""
    yield f"{at:%Y-%m-%d %H:%M:%S} UTC: {pools}{cost}{advice}"
    for reason in record.reasons:
        yield from wrapped(reason, width)
    for name, pool in record.pools.items():
        if pool.reason and pool.reason not in record.reasons:
            yield from wrapped(f"{name}: {pool.reason}", width)
    for warning in record.warnings:
        yield from wrapped(f"warning: {warning}", width)
    if record.inputs:
        yield from wrapped(", ".join(f"{name} {_figure(value)}" for name, value in record.inputs.items()), width)


def _figure(value: float) -> str:
    return f"{value:.4g}"
