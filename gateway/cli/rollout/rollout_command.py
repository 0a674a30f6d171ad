"""`penstock rollout`: change a model's version, and see how far it is."""

import argparse
import math
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, get_args

import msgspec

from gateway.cli.registry_access import actor, add_store_action
from gateway.cli.rollout.rollout_text import event_lines, model_rows, status_lines
from gateway.cli.whole_number import whole_number
from gateway.config.settings import Config
from gateway.rollouts.rollout_registry import MOST_TOLD, RolloutRegistry, RolloutView
from gateway.store.store_client import Store
from observability.printable import printable
from observability.terminal import fail, fitted, print_json
from routing.rollouts.settings import Goal, GoalMeasure, Plan
from routing.rollouts.settings import Rollout as Settings

_Run = Callable[[RolloutRegistry, argparse.Namespace], Awaitable[int]]
_PLANS = tuple(plan.replace("_", "-") for plan in get_args(Plan))
_GOALS = get_args(GoalMeasure)
#: Goals of which more is better.
_PRAISE = ("thumbs_up", "accepted")
#: Events that `history` shows unless it is told how many.
_SHOWN = 20
_EVENTS = whole_number(1, MOST_TOLD)
_COUNT = whole_number(0, 1_000_000)
_SURGE = whole_number(1, 1024)


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `rollout` and its subcommands."""
    parser = subparsers.add_parser("rollout", help="change a model's version under traffic, watch it, take it back")
    add = partial(_add_action, parser.add_subparsers(required=True, metavar="ACTION"))
    start = add("start", _start, "begin to change a model's version")
    start.add_argument("model", metavar="MODEL")
    start.add_argument("--to", required=True, metavar="VERSION", help="the candidate")
    start.add_argument(
        "--plan",
        type=_plan,
        metavar="PLAN",
        help=f"how it gets requests: {', '.join(_PLANS)} (default: as the file declares, or canary)",
    )
    start.add_argument(
        "--goal", choices=_GOALS, metavar="MEASURE", help=f"what decides the plan ab: {', '.join(_GOALS)}"
    )
    start.add_argument(
        "--better", choices=("lower", "higher"), help="which way the goal is better (default: lower, of praise higher)"
    )
    start.add_argument(
        "--stages", type=_shares, metavar="SHARES", help="its shares, rising up to 1, as 0.1,0.5,1 or 10%%,50%%,100%%"
    )
    start.add_argument("--hold-seconds", type=_seconds, metavar="N", help="least time in each stage")
    start.add_argument("--min-requests", type=_COUNT, metavar="N", help="least requests of each stage")
    start.add_argument("--surge", type=_SURGE, metavar="N", help="most replicas that are started at one time")
    listing = add("list", _list, "show the models that go by version")
    listing.add_argument("--model", metavar="NAME", help="only this model")
    status = add("status", _status, "show how far a model's rollout is, and what is measured of both versions")
    status.add_argument("model", metavar="MODEL")
    history = add("history", _history, "show what has happened to rollouts, and why")
    history.add_argument("model", metavar="MODEL", nargs="?")
    history.add_argument(
        "--last",
        type=_EVENTS,
        default=_SHOWN,
        metavar="N",
        help="so many events (default: %(default)s)",
    )
    for name, run, meaning in (
        ("promote", _promote, "make the candidate the stable version now, whatever was measured"),
        ("abort", _abort, "give everything back to the stable version, at once"),
        ("pause", _pause, "keep a rollout where it is; a worse candidate is rolled back all the same"),
        ("resume", _resume, "undo a pause"),
    ):
        add(name, run, meaning).add_argument("model", metavar="MODEL")


def _add_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, run: _Run, meaning: str
) -> argparse.ArgumentParser:
    def act(store: Store, config: Config, arguments: argparse.Namespace) -> Awaitable[int]:
        return run(RolloutRegistry(store, config), arguments)

    return add_store_action(actions, "rollout", name, act, meaning)


def _plan(text: str) -> str:
    """Take a plan's name as commands or as files write it."""
    found = text.strip().lower().replace("_", "-")
    if found not in _PLANS:
        raise argparse.ArgumentTypeError(f"expected {', '.join(_PLANS)}, got {text!r}")
    return found.replace("-", "_")


def _shares(text: str) -> tuple[float, ...]:
    try:
        found = tuple(_share(part.strip()) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected shares as 0.1,0.5,1 or 10%,50%,100%, got {text!r}") from None
    for share in found:
        if not 0 < share <= 1:
            raise argparse.ArgumentTypeError(f"expected shares over 0 and up to 1 (100%), got {text!r}")
    return found


def _share(text: str) -> float:
    return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= 604_800:
        raise argparse.ArgumentTypeError(f"expected 0 to 604800 seconds, got {text!r}")
    return found


async def _start(registry: RolloutRegistry, arguments: argparse.Namespace) -> int:
    plan = arguments.plan
    given: dict[str, Any] = {
        "plan": plan,
        "stages": arguments.stages,
        "hold_seconds": arguments.hold_seconds,
        "min_requests": arguments.min_requests,
        "surge": arguments.surge,
        "goal": _goal(arguments),
    }
    base = registry.settings(arguments.model, arguments.to)
    if plan not in (None, base.plan):
        # The stages and goals that are declared are another plan's.
        base = Settings(model=base.model, to=base.to)
    settings = msgspec.structs.replace(base, **{name: value for name, value in given.items() if value is not None})
    if settings.plan == "ab" and settings.goal is None:
        return fail("rollout", f"--goal: required for the plan ab, which is about one measure: {', '.join(_GOALS)}")
    if arguments.better is not None and arguments.goal is None:
        return fail("rollout", "--better: says which way --goal is better, which is not given")
    view = await registry.start(settings, actor())
    if arguments.json:
        print_json(view)
        return 0
    rollout = view.rollout
    stages = ", ".join(f"{100 * share:g} %" for share in settings.shares)
    plan_words = f"{settings.plan.replace('_', '-')}{_of(stages)}"
    print(printable(f"{rollout.model} goes from {rollout.stable} to {rollout.candidate} ({plan_words})"))
    if not view.controller:
        print("no controller acts now: it begins when one does")
    else:
        shown = f"penstock rollout status {rollout.model} --config {arguments.config}"
        print(printable(f"{shown} shows how far it is"))
    return 0


def _goal(arguments: argparse.Namespace) -> Goal | None:
    if arguments.goal is None:
        return None
    return Goal(measure=arguments.goal, better=arguments.better or ("higher" if arguments.goal in _PRAISE else "lower"))


def _of(stages: str) -> str:
    return f": {stages}" if stages else ""


async def _list(registry: RolloutRegistry, arguments: argparse.Namespace) -> int:
    found = await registry.models(arguments.model)
    if arguments.json:
        print_json({"models": found})
        return 0
    if not found:
        print("no model goes by version: none has `stable`, or pools of several versions")
        return 0
    width = shutil.get_terminal_size().columns
    print("\n".join(map(printable, fitted(model_rows(found), width))))
    return 0


async def _status(registry: RolloutRegistry, arguments: argparse.Namespace) -> int:
    (model,) = await registry.models(arguments.model)
    if arguments.json:
        print_json(model)
        return 0
    width = shutil.get_terminal_size().columns
    print("\n".join(map(printable, status_lines(model, width))))
    return 0


async def _history(registry: RolloutRegistry, arguments: argparse.Namespace) -> int:
    found = await registry.events(arguments.model, arguments.last)
    if arguments.json:
        print_json({"events": found})
        return 0
    if not found:
        of = f"of {arguments.model} " if arguments.model else ""
        print(printable(f"nothing {of}has been rolled out yet"))
        return 0
    width = shutil.get_terminal_size().columns
    print("\n".join(map(printable, event_lines(found, width, of="all" if arguments.model is None else "model"))))
    return 0


async def _promote(registry: RolloutRegistry, arguments: argparse.Namespace) -> int:
    view = await registry.set_wish(arguments.model, "promote", actor())
    return _say(view, arguments, f"{view.rollout.candidate} becomes the stable version of {arguments.model}")


async def _abort(registry: RolloutRegistry, arguments: argparse.Namespace) -> int:
    view = await registry.set_wish(arguments.model, "abort", actor())
    return _say(view, arguments, f"{arguments.model} goes back to {view.rollout.stable}")


async def _pause(registry: RolloutRegistry, arguments: argparse.Namespace) -> int:
    view = await registry.set_wish(arguments.model, "pause", actor())
    return _say(view, arguments, f"the rollout of {arguments.model} stays where it is")


async def _resume(registry: RolloutRegistry, arguments: argparse.Namespace) -> int:
    view = await registry.set_wish(arguments.model, "run", actor())
    return _say(view, arguments, f"the rollout of {arguments.model} goes on")


def _say(view: RolloutView, arguments: argparse.Namespace, words: str) -> int:
    if arguments.json:
        print_json(view)
    else:
        print(printable(words if view.controller else f"{words}, once a controller acts: none does now"))
    return 0
