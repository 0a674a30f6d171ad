"""Options of `penstock replica` for a replica that shares the GPUs of a host with others."""

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING

from protos.reshape import Span
from replicas.cli.simulated_options import positive

if TYPE_CHECKING:
    from replicas.engine import Engine
    from replicas.groups.group_member import GroupOptions


def add_group_options(parser: argparse.ArgumentParser) -> None:
    """Add these options as a group."""
    group = parser.add_argument_group("host group: replicas on one host's GPUs that can join theirs")
    group.add_argument("--group", metavar="NAME", help="the group's name, for all of its replicas and no others")
    group.add_argument("--group-gpus", type=positive, metavar="N", help="GPUs of the group, a power of two")
    group.add_argument(
        "--gpu",
        type=_number,
        metavar="K",
        default=_first_visible(),
        help="this replica's first GPU, of those from 0 to N - 1 (default: the first one of CUDA_VISIBLE_DEVICES)",
    )


def check_group(arguments: argparse.Namespace) -> None:
    """Check these options and those that must fit to them. Raises ValueError."""
    gpus, gpu, width = arguments.group_gpus, arguments.gpu, arguments.tp
    if arguments.group is None:
        for name, value, unset in (("--group-gpus", gpus, None), ("--gpu", gpu, _first_visible())):
            if value != unset:
                raise ValueError(f"{name} goes with --group")
        return
    if not arguments.group:
        raise ValueError("--group is empty: give the group's name")
    for name, value in (("--group-gpus", gpus), ("--gpu", gpu)):
        if value is None:
            raise ValueError(f"--group goes with {name}")
    if gpus & (gpus - 1):
        raise ValueError(f"--group-gpus is a power of two, not {gpus}")
    if width & (width - 1) or width > gpus:
        raise ValueError(f"--tp in a group is a power of two of at most --group-gpus {gpus}, not {width}")
    if gpu % width or gpu + width > gpus:
        raise ValueError(f"--gpu is a multiple of --tp {width} below --group-gpus {gpus}, not {gpu}")
    for name, degree in (("--ep", arguments.ep), ("--pp", arguments.pp)):
        if degree > 1:
            raise ValueError(f"--group is for replicas that are only tensor parallel, not with {name} {degree}")
    if len(arguments.listen) > 1:
        raise ValueError("--group is for one replica: give --listen once")
    if arguments.tls_certificate is not None and arguments.tls_client_ca is None:
        raise ValueError("--group with TLS goes with --tls-client-ca, by which the group's replicas know each other")


def group_of(arguments: argparse.Namespace, engine: "Engine") -> "GroupOptions | None":
    """Return the replica's host group, if it has one."""
    if arguments.group is None:
        return None
    from replicas.engines.reshapable_engine import ReshapableEngine
    from replicas.engines.simulated_start import SimulatedStart
    from replicas.groups.group_member import GroupOptions
    from replicas.groups.group_tls import group_credentials

    inner = engine.engine if isinstance(engine, SimulatedStart) else engine
    return GroupOptions(
        arguments.group,
        arguments.group_gpus,
        Span(arguments.gpu, arguments.tp),
        inner if isinstance(inner, ReshapableEngine) else None,
        partial(group_credentials, arguments.tls_certificate, arguments.tls_key, arguments.tls_client_ca),
    )


def _first_visible() -> int | None:
    """Return the first of the GPUs that a launcher has given to this process, if it has given any by their indexes."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0]
    return int(first) if first.isascii() and first.isdigit() else None


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError("must be a whole number of at least 0")
    return int(text)
