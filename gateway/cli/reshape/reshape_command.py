"""`penstock reshape`: see how replicas share GPUs, and change it."""

import argparse
import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from gateway.cli.registry_access import actor, add_store_action
from gateway.cli.reshape.reshape_text import advice_words, event_lines, model_lines, plan_words, undecided_words
from gateway.cli.whole_number import whole_number
from gateway.config.settings import Config
from gateway.reshaping.change import Change, ModelShapes, shape_name
from gateway.reshaping.reshape_registry import MOST_TOLD, OrderView, ReshapeRegistry
from gateway.reshaping.shape_orders import ORDER_SECONDS
from gateway.store.store_client import Store
from observability.printable import printable
from observability.terminal import fail, print_json
from protos.errors import InvalidRequest

_Run = Callable[[ReshapeRegistry, argparse.Namespace], Awaitable[int]]
_EVENTS = whole_number(1, MOST_TOLD)
#: Events that `history` shows unless it is told how many.
_SHOWN: Final = 20
#: Seconds between two looks at an order, and for which one is waited for unless it is said how long.
_LOOK_SECONDS: Final = 0.2
_WAIT_SECONDS: Final = 60.0


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `reshape` and its subcommands."""
    parser = subparsers.add_parser("reshape", help="change the TP degree of replicas that share GPUs, while they serve")
    add = partial(_add_action, parser.add_subparsers(required=True, metavar="ACTION"))
    status = add("status", _status, "show host groups, how their replicas stand, and what is advised")
    status.add_argument("model", metavar="MODEL", nargs="?")
    plan = add("plan", _plan, "show what would be changed now, or what a change would be; nothing is changed")
    _add_target(plan)
    apply = add("apply", _apply, "change a group's shape: to what is advised, or to SHAPE")
    _add_target(apply)
    apply.add_argument(
        "--wait", type=_seconds, default=_WAIT_SECONDS, metavar="SECONDS", help="wait for its end (default: 60; 0: not)"
    )
    history = add("history", _history, "show what has happened to shapes, and why")
    history.add_argument("model", metavar="MODEL", nargs="?")
    history.add_argument(
        "--last",
        type=_EVENTS,
        default=_SHOWN,
        metavar="N",
        help="so many events (default: %(default)s)",
    )


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("group", metavar="GROUP", nargs="?")
    parser.add_argument(
        "shape",
        type=_shape,
        metavar="SHAPE",
        nargs="?",
        help="widths of its replicas, from its first GPU on, as 4 or 2,1,1",
    )


def _add_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, run: _Run, meaning: str
) -> argparse.ArgumentParser:
    def act(store: Store, config: Config, arguments: argparse.Namespace) -> Awaitable[int]:
        return run(ReshapeRegistry(store, config), arguments)

    return add_store_action(actions, "reshape", name, act, meaning)


def _shape(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 1024 for part in parts):
        raise argparse.ArgumentTypeError(f"expected widths as 4 or 2,1,1, got {text!r}")
    return tuple(map(int, parts))


def _seconds(text: str) -> float:
    if text.isdecimal() and int(text) <= 3600:
        return float(text)
    raise argparse.ArgumentTypeError(f"expected 0 to 3600 seconds, got {text!r}")


async def _status(registry: ReshapeRegistry, arguments: argparse.Namespace) -> int:
    view = await registry.view(arguments.model)
    if arguments.json:
        print_json(view)
        return 0
    if not view.models:
        print("no model has `reshape`: shapes stay as they are")
        return 0
    width = shutil.get_terminal_size().columns
    for model in view.models:
        print("\n".join(map(printable, model_lines(model, width))))
    if not view.controller:
        age = "nothing was told yet" if view.age_seconds is None else f"this was told {view.age_seconds:.0f} s ago"
        print(f"no controller acts now: {age}")
    return 0


async def _plan(registry: ReshapeRegistry, arguments: argparse.Namespace) -> int:
    group, shape = _target(arguments)
    if group is not None:
        plan = await registry.plan(arguments.model, group, shape)
        if arguments.json:
            print_json(plan)
        else:
            print(printable(plan_words(plan)))
        return 0
    shapes = await _shapes(registry, arguments.model)
    undecided = {one.group: one.undecided for one in shapes.groups if one.undecided}
    if arguments.json:
        print_json({"advice": shapes.advice, "undecided": undecided})
    elif shapes.advice is None:
        print(printable(f"no shape of {arguments.model} would be changed now"))
        print("".join(f"{printable(words)}\n" for words in undecided_words(shapes)), end="")
    else:
        print(printable(advice_words(shapes.advice)))
    return 0


async def _apply(registry: ReshapeRegistry, arguments: argparse.Namespace) -> int:
    group, shape = _target(arguments)
    if group is None:
        advice = (await _shapes(registry, arguments.model)).advice
        if advice is None:
            raise InvalidRequest(f"shape: no change of {arguments.model} is advised now; say GROUP and SHAPE")
        group, shape = advice.group, advice.after
    order = await registry.apply(arguments.model, group, shape, actor())
    if order.controller and arguments.wait:
        order = await _ended(registry, order, arguments.wait)
    if arguments.json:
        print_json(order)
        return int(bool(order.refused) or _failed(order.change))
    if order.refused:
        return fail("reshape", f"{group} stays as it is: {order.refused}")
    return _said(order, group)


async def _history(registry: ReshapeRegistry, arguments: argparse.Namespace) -> int:
    found = await registry.events(arguments.model, arguments.last)
    if arguments.json:
        print_json({"events": found})
        return 0
    if not found:
        of = f"of {arguments.model} " if arguments.model else ""
        print(printable(f"no shape {of}has been changed yet"))
        return 0
    width = shutil.get_terminal_size().columns
    print("\n".join(map(printable, event_lines(found, width))))
    return 0


def _target(arguments: argparse.Namespace) -> tuple[str | None, Sequence[int]]:
    """Return the group and its shape. Raises InvalidRequest where there is one without the other."""
    if (arguments.group is None) != (arguments.shape is None):
        raise InvalidRequest("shape: GROUP needs a SHAPE, as 4 or 2,1,1", param="shape")
    return arguments.group, arguments.shape or ()


async def _shapes(registry: ReshapeRegistry, model: str) -> ModelShapes:
    (found,) = (await registry.view(model)).models
    return found


async def _ended(registry: ReshapeRegistry, order: OrderView, seconds: float) -> OrderView:
    """Wait until an order has come to its end, for so long at most."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while not order.refused and (order.change is None or not order.change.is_over) and loop.time() < until:
        await asyncio.sleep(_LOOK_SECONDS)
        order = await registry.followed(order)
    return order


def _failed(change: Change | None) -> bool:
    return change is not None and change.missed


def _said(order: OrderView, group: str) -> int:
    change, name = order.change, shape_name(order.plan.after)
    if change is None and not order.controller:
        print(printable(f"no controller acts now: {group} goes to {name} if one does within {ORDER_SECONDS:.0f} s"))
    elif change is None or not change.is_over or change.ended is None:
        print(printable(f"{group} goes to {name}{'' if change is None else f': {change.phase}'}"))
    elif change.missed:
        stays = change.before if change.phase == "failed" else change.after
        return fail("reshape", f"{group} stays {shape_name(stays)}: {change.failure}")
    else:
        # Of several changes only the last one's time is known.
        one = list(change.before) == list(order.plan.before)
        print(printable(f"{group} is {name}{f' after {change.ended - change.started:.2f} s' if one else ''}"))
    return 0
