"""`penstock drift`: how what clients send and models answer stands beside its reference; references anew."""

import argparse
import shutil
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial

from gateway.cli.registry_access import actor, add_store_action
from gateway.config.settings import Config
from gateway.rollouts.drift.drift_registry import DriftRegistry
from gateway.rollouts.drift.drift_view import DriftModelView, HistogramView, SubjectView
from gateway.store.store_client import Store
from observability.printable import printable
from observability.terminal import print_json, table, wrapped

_Run = Callable[[DriftRegistry, argparse.Namespace], Awaitable[int]]
_HOURS = (1, 6)


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `drift` and its subcommands."""
    parser = subparsers.add_parser("drift", help="show how traffic has moved away from its reference")
    add = partial(_add_action, parser.add_subparsers(required=True, metavar="ACTION"))
    listing = add("list", _list, "show the last windows beside the reference; status 3 where one has drifted")
    listing.add_argument("--model", metavar="NAME", help="only this model")
    add("reset", _reset, "begin the references of a model anew").add_argument("model", metavar="MODEL")


def _add_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, run: _Run, meaning: str
) -> argparse.ArgumentParser:
    def act(store: Store, config: Config, arguments: argparse.Namespace) -> Awaitable[int]:
        return run(DriftRegistry(store, config), arguments)

    return add_store_action(actions, "drift", name, act, meaning)


async def _list(registry: DriftRegistry, arguments: argparse.Namespace) -> int:
    view = await registry.view(arguments.model)
    if arguments.json:
        print_json(view)
    elif not view.models:
        print("No model has `drift` in the configuration.")
    else:
        width = shutil.get_terminal_size().columns
        print("\n\n".join("\n".join(_block(model, width)) for model in view.models))
    return 3 if any(model.drifted for model in view.models) else 0


async def _reset(registry: DriftRegistry, arguments: argparse.Namespace) -> int:
    view = await registry.reset(arguments.model, actor())
    if arguments.json:
        print_json(view)
    else:
        print(f"The references of {arguments.model} begin anew with what comes from now on.")
    return 0


def _block(model: DriftModelView, width: int) -> Iterator[str]:
    state = "drifted" if model.drifted else "no drift"
    yield f"{model.model}: {state if model.subjects else 'no requests yet'}"
    for subject in model.subjects:
        yield f"  {_name(subject)}"
        if subject.state == "gathering":
            yield f"    the reference is complete on {_time(subject.until)}"
            continue
        yield f"    reference: {_time(subject.since)} to {_time(subject.until)}"
        rows = [("OF", *(f"{hours} H" for hours in _HOURS), "")]
        rows += [(one.of, *_windows(one), "drifted" if one.drifted else "") for one in subject.histograms]
        yield from (f"    {line}" for line in table(rows))
        for one in subject.histograms:
            if one.change:
                text = printable(f"{one.of}: {one.change}")
                yield from wrapped(text, width, "    ", "      ")


def _windows(histogram: HistogramView) -> list[str]:
    """Distance and threshold of each window."""
    found = {one.hours: f"{one.distance:.3f} of {one.threshold:.3f}" for one in histogram.windows}
    return [found.get(hours, "-") for hours in _HOURS]


def _name(subject: SubjectView) -> str:
    if subject.side == "input":
        return "what clients send"
    return f"answers of version {printable(subject.version)}" if subject.version else "answers"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
