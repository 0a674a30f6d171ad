"""`penstock safety`: show what filters do to a text, and how well and how fast they do it."""

import argparse
from pathlib import Path

from observability.terminal import print_json, print_table
from safety.pii.kinds import KINDS


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `safety` and its subcommands."""
    parser = subparsers.add_parser("safety", help="try filters on texts, and measure them")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    _add_test(actions)
    _add_bench(actions)
    kinds = actions.add_parser("kinds", help="list the kinds of personal data and secrets that are known")
    kinds.add_argument("--json", action="store_true", help="print JSON")
    kinds.set_defaults(run=_kinds)


def _add_test(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = actions.add_parser(
        "test",
        help="show what each filter finds in a text, and how the text would go on",
        description="Exit status: 0 if nothing is found, 1 if something is, 2 if a text or a filter cannot be used. "
        "Shows the matches themselves.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="a text in UTF-8; -: standard input")
    _add_filter_options(parser)
    parser.add_argument(
        "--policy", metavar="NAME", help="filters and actions of this policy (default: the general rules)"
    )
    parser.add_argument(
        "--direction", choices=["input", "output"], default="input", help="as a prompt or as an answer (default: input)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a line for each text")
    parser.set_defaults(run=_test)


def _add_bench(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = actions.add_parser(
        "bench",
        help="measure precision, recall and speed on labelled texts",
        description="Labelled texts are JSON objects, one a line: "
        '{"text": ..., "spans": [[START, END, KIND], ...]}, in characters, END exclusive, or '
        '{"text": ..., "injection": true or false}; "family", "language" and "genre" are optional.',
    )
    _add_filter_options(parser)
    parser.add_argument(
        "--data",
        action="append",
        type=Path,
        metavar="FILE",
        help="labelled texts (default: those that come with Penstock)",
    )
    parser.add_argument(
        "--misses", type=_count, default=0, metavar="N", help="show the first N misses and false alarms"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_bench)


def _add_filter_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a configuration with filters (default: the built-in ones)"
    )
    parser.add_argument("--filter", action="append", metavar="NAME", help="only this filter; may be repeated")


def _test(arguments: argparse.Namespace) -> int:
    # Imported here and below: the filters take long to import, and `penstock --help` needs none.
    from gateway.cli.safety.filter_test import test

    return test(arguments)


def _bench(arguments: argparse.Namespace) -> int:
    from gateway.cli.safety.filter_bench import bench

    return bench(arguments)


def _kinds(arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_json([kind._asdict() for kind in KINDS.values()])
        return 0
    rows = [(kind.name, "secrets" if kind.secret else "personal", kind.description) for kind in KINDS.values()]
    print_table(("KIND", "OF", "WHAT"), rows)
    return 0


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}")
    return int(text)
