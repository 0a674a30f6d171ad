"""`penstock init`: scan an application's folder and propose a configuration."""

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from gateway.cli.whole_number import whole_number
from gateway.scan.proposal.propose import DEFAULT_CONTEXT, Options, propose
from gateway.scan.proposal.render import render
from gateway.scan.proposal.size import SizingOptions
from gateway.scan.scan import scan
from gateway.scan.sizing.gpus import KNOWN, GpuKind, gpu_kind, known_kinds
from gateway.scan.walk import Bounds
from observability.terminal import fail, print_json

_ENGINES: Final = ("vllm", "sglang", "trtllm")
_GPUS_OF_A_MACHINE: Final = 8


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `init`."""
    parser = subparsers.add_parser("init", help="scan an application and propose a configuration")
    parser.add_argument("folder", type=Path, metavar="DIR", help="the application's folder; nothing of it is run")
    parser.add_argument(
        "--out", type=Path, default=Path("penstock.yaml"), metavar="FILE", help="(default: %(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="write FILE even if it exists")
    parser.add_argument(
        "--gpu",
        type=_gpu,
        action="append",
        default=[],
        metavar="KIND:COUNT[:MEMORYGiB][@USD]",
        help=f"GPUs of a machine, as h100:8 or l4:1@0.7 (price of one and hour); repeat it. Known: {', '.join(KNOWN)}. "
        "Default: each known kind, eight in a machine",
    )
    parser.add_argument(
        "--context",
        type=whole_number(1, 10_000_000),
        metavar="TOKENS",
        help=f"prompt and answer together (default: as the application says, else {DEFAULT_CONTEXT})",
    )
    parser.add_argument(
        "--concurrency",
        type=whole_number(1, 10_000_000),
        default=16,
        metavar="N",
        help="requests at once on a replica (default: %(default)s)",
    )
    parser.add_argument(
        "--engine", choices=_ENGINES, default="vllm", help="for models that no engine serves yet (default: %(default)s)"
    )
    parser.add_argument(
        "--budget", type=_usd, default=100.0, metavar="USD", help="of each tenant and month (default: %(default)g)"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # Here, since every help text imports this module: tables take long to import.
    from gateway.cli.init.init_report import print_report, report

    out: Path = arguments.out
    if out.exists() and not arguments.force:
        return fail("init", f"{out} exists; --force writes it anew")
    try:
        found = scan(arguments.folder, Bounds(), frozenset({out.resolve()}))
    except OSError as error:
        return fail("init", f"{arguments.folder}: {error.strerror or error}")
    gpus: list[GpuKind] = arguments.gpu
    sizing = SizingOptions(gpus=tuple(gpus) or known_kinds(_GPUS_OF_A_MACHINE), concurrency=arguments.concurrency)
    proposal = propose(found, Options(sizing=sizing, context=arguments.context, engine=arguments.engine))
    if proposal.models:
        text = render(proposal, str(arguments.folder), arguments.budget)
        try:
            _write(out, text)
        except OSError as error:
            return fail("init", f"{out}: {error.strerror or error}")
    if arguments.json:
        print_json(report(found, proposal))
    else:
        print_report(found, proposal)
    if not proposal.models:
        return fail("init", f"{arguments.folder} uses no model that the gateway could serve, so {out} was not written")
    print(f"{out} was written; penstock check --config {out} says what it would run", file=sys.stderr)
    return 0


def _write(path: Path, text: str) -> None:
    """Write a file whole: a scan that is broken off leaves the old one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _gpu(text: str) -> GpuKind:
    try:
        return gpu_kind(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _usd(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1_000_000:
        raise argparse.ArgumentTypeError(f"expected US dollars, above 0 and at most 1000000, got {text!r}")
    return value
