"""`penstock replicas`: list replicas, and drain and resume them, while the gateway runs."""

import argparse
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial

from gateway.cli.registry_access import actor, add_store_action
from gateway.config.settings import Config
from gateway.fleets.drains import GRACE_SECONDS, Drain
from gateway.fleets.listing import UNKNOWN, UNREPORTED_LOAD, GroupView, ReplicaView, ShapeView
from gateway.fleets.replica_registry import ReplicaRegistry
from gateway.scaling.intents import replica_registry
from gateway.store.store_client import Store
from observability.printable import printable
from observability.terminal import print_json, table, wrapped
from protos.reshape import MemberState
from protos.types import Role
from routing.health.replica_status import State

#: Widths from which on addresses, then sources and served versions, are shown.
_WIDE = 110
_WIDEST = 150
_LONGEST_ADDRESS = 48
_LONGEST_VERSION = 24
_HEADER = (
    *("REPLICA", "SHAPE", "ROLE", "STATE", "SHARE", "RUN", "WAIT", "KV", "OPEN", "PREDICT"),
    *("GPUS", "ADDRESS", "SOURCE", "VERSION"),
)
_LEAVING = ("SOURCE", "ADDRESS", "PREDICT", "ROLE", "VERSION", "OPEN")
_NO_NUMBERS = (UNKNOWN, *(state.value for state in UNREPORTED_LOAD))
_PARTNER = {Role.PREFILL: Role.DECODE, Role.DECODE: Role.PREFILL, Role.BOTH: Role.BOTH}

_Run = Callable[[ReplicaRegistry, argparse.Namespace], Awaitable[int]]


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `replicas` and its subcommands."""
    parser = subparsers.add_parser("replicas", help="show replicas, and take some out of service")
    add = partial(_add_action, parser.add_subparsers(required=True, metavar="ACTION"))
    add("list", _list, "show how replicas are, as all workers see them")
    drain = add("drain", _drain, "give no more requests to a replica or a pool; workers heed it within a second")
    resume = add("resume", _resume, "undo a drain")
    for chosen in (drain, resume):
        chosen.add_argument("target", metavar="REPLICA_OR_POOL", help="such as narrow/0, or narrow for all of a pool")
    drain.add_argument(
        "--grace",
        type=float,
        default=GRACE_SECONDS,
        metavar="SECONDS",
        help="after so long, what still runs there goes on at other replicas (default: %(default)g)",
    )


def _add_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, run: _Run, meaning: str
) -> argparse.ArgumentParser:
    def act(store: Store, config: Config, arguments: argparse.Namespace) -> Awaitable[int]:
        return run(replica_registry(store, config), arguments)

    parser = add_store_action(actions, "replicas", name, act, meaning)
    parser.add_argument("--model", metavar="NAME", help="only this model's replicas")
    return parser


async def _list(registry: ReplicaRegistry, arguments: argparse.Namespace) -> int:
    rows = await registry.replicas(arguments.model)
    if arguments.json:
        print_json(rows)
        return 0
    width = shutil.get_terminal_size().columns
    by_model: dict[str, list[ReplicaView]] = {name: [] for name in registry.models if arguments.model in (None, name)}
    for row in rows:
        by_model[row.model].append(row)
    blocks = ["\n".join(map(printable, _block(model, of_model, width))) for model, of_model in by_model.items()]
    print("\n\n".join(blocks))
    return 0


async def _drain(registry: ReplicaRegistry, arguments: argparse.Namespace) -> int:
    drain = await registry.drain(arguments.model, arguments.target, arguments.grace, actor())
    if arguments.json:
        print_json(drain)
        return 0
    print(f"draining {drain.target} of {drain.model}: what still runs there in {drain.grace_seconds:g} s moves on")
    rows = await registry.replicas(drain.model)
    # One that is ready and gets nothing is of a version that does not serve, and takes no other's requests.
    left = (row for row in rows if row.drain is None and row.state not in _NO_NUMBERS)
    if not _with_partners(row for row in left if row.share > 0 or row.state != State.READY.value):
        print(f"no replica of {drain.model} is left: its requests are refused, and what runs ends with an error")
    return 0


async def _resume(registry: ReplicaRegistry, arguments: argparse.Namespace) -> int:
    ended = await registry.resume(arguments.model, arguments.target, actor())
    if arguments.json:
        print_json({"drains": ended})
    else:
        print(_resumed_lines(ended) or f"{arguments.target} was not drained")
    return 0


def _resumed_lines(ended: Sequence[Drain]) -> str:
    return "\n".join(f"resumed {drain.target} of {drain.model}" for drain in ended)


def _block(model: str, rows: Sequence[ReplicaView], width: int) -> Iterator[str]:
    """Format a model's replicas as a table, with the reasons of those that do not get all requests below."""
    if not rows:
        yield f"{model}: no replicas at the moment"
        return
    serving = _with_partners(row for row in rows if row.share > 0)
    count = len(serving)
    replicas, take = "replica" if len(rows) == 1 else "replicas", "takes" if count == 1 else "take"
    yield f"{model}: {len(rows)} {replicas}, {count} {take} requests"
    yield from _fitting([_HEADER, *map(_cells, rows)], _shown(rows, width), width)
    for row in rows:
        reason = _reason(row)
        if not reason and row not in serving:
            reason = f"no {_PARTNER[row.role].value} replica to pair it with takes requests"
        if reason:
            yield from wrapped(f"{row.id}: {reason}", width, "", "  ")


def _shown(rows: Sequence[ReplicaView], width: int) -> list[str]:
    """Choose the columns, before it is known whether they fit."""
    left_out = set()
    if not any(row.group for row in rows):
        left_out.add("GPUS")
    if width < _WIDE:
        left_out.add("ADDRESS")
    if width < _WIDEST:
        left_out.add("SOURCE")
        # Where there are several, they are why some of the replicas get nothing.
        if len({row.version for row in rows}) == 1:
            left_out.add("VERSION")
    return [title for title in _HEADER if title not in left_out]


def _fitting(lines: Sequence[Sequence[str]], shown: list[str], width: int) -> Iterator[str]:
    """Format the columns that are shown; those that say least leave where all of them are too wide."""
    leaving = [title for title in _LEAVING if title in shown]
    while True:
        places = [_HEADER.index(title) for title in shown]
        made = list(table([[line[place] for place in places] for line in lines]))
        if not leaving or max(map(len, made)) <= width:
            return iter(made)
        shown.remove(leaving.pop(0))


def _with_partners(rows: Iterable[ReplicaView]) -> list[ReplicaView]:
    """Keep the replicas that need no partner, or have one among them."""
    rows = list(rows)
    roles = {row.role for row in rows}
    return [row for row in rows if _PARTNER[row.role] in roles]


def _cells(row: ReplicaView) -> tuple[str, ...]:
    known = row.state not in _NO_NUMBERS
    kv = f"{row.kv_blocks_used / row.kv_blocks_total:.0%}" if known and row.kv_blocks_total else "-"
    numbers = (str(row.running), str(row.waiting)) if known else ("-", "-")
    accuracy = "-" if row.accuracy is None else f"{row.accuracy:.0%}"
    return (
        row.id,
        _shape(row.shape),
        row.role.value,
        row.state,
        f"{row.share:.0%}",
        *numbers,
        kv,
        str(row.in_flight),
        accuracy,
        _gpus(row.group),
        _shortened(row.address, _LONGEST_ADDRESS),
        row.source,
        _shortened(row.version, _LONGEST_VERSION) or "-",
    )


def _gpus(group: GroupView | None) -> str:
    """Format the GPUs of a host group that a replica serves, or on which it is parked."""
    if group is None:
        return "-"
    state = "" if group.state in (MemberState.SERVING, MemberState.PARKED) else f" ({group.state.value})"
    gpus = str(group.first) if group.first == group.last else f"{group.first}-{group.last}"
    return f"{group.name} {gpus}{state}"


def _shape(shape: ShapeView) -> str:
    degrees = (("tp", shape.tp), ("ep", shape.ep), ("pp", shape.pp))
    return "-".join(f"{name}{degree}" for name, degree in degrees if name == "tp" or degree > 1)


def _shortened(name: str, most: int) -> str:
    """Keep the end of a long name, which tells replicas and versions apart."""
    return name if len(name) <= most else f"...{name[3 - most :]}"


def _reason(row: ReplicaView) -> str:
    parts = [row.reason]
    if row.group is not None and row.group.failure:
        parts.append(f"change {row.group.change} of its shape failed: {row.group.failure}")
    if row.drain is not None:
        # Workers have not heeded it yet where none tells a reason.
        why = row.reason or "it is to be drained"
        parts[0] = f"{why} ({row.drain.actor}, grace {row.drain.grace_seconds:g} s)"
    if row.breaker_seconds:
        parts.append(f"looked at again in {row.breaker_seconds:.0f} s")
    return "; ".join(filter(None, parts))
