"""`penstock audit`: parse the arguments of the audit journal's commands."""

import argparse
from pathlib import Path

import msgspec

from gateway.cli.audit.journal_location import locate_journal
from observability.journal.signer import read_key
from observability.journal.verification import Report, verify
from observability.printable import printable
from observability.terminal import fail, print_json


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `audit` and its subcommands."""
    parser = subparsers.add_parser("audit", help="check the audit journal, and ask it")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    _add_verify(actions)
    _add_query(actions)
    _add_usage(actions)
    _add_bench(actions)


def _add_verify(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = actions.add_parser(
        "verify",
        help="check that the journal is whole, unchanged and in order",
        description="Exit status: 0 if it is, 1 if it is not, 2 if it cannot be read. May run beside the gateway.",
    )
    _add_location(parser)
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="with --folder: the key of its chains")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_verify)


def _add_query(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = actions.add_parser(
        "query",
        help="show entries of the journal",
        description="Expressions are DuckDB's SQL over the entries' fields, such as "
        "\"status >= 500 and model = 'm'\" or \"list_contains([v.rule for v in verdicts], 'pii')\".",
    )
    _add_location(parser)
    _add_period(parser)
    parser.add_argument(
        "--of",
        choices=["requests", "changes", "journal"],
        default="requests",
        help="requests, admin changes, or what happened to the journal itself (default: requests)",
    )
    parser.add_argument("--where", metavar="SQL", help="only entries for which this expression is true")
    parser.add_argument("--select", metavar="SQL", help='what is shown of them, such as "time, id, ended_us / 1000"')
    parser.add_argument("--limit", type=_count, default=100, metavar="N", help="most rows, the newest (default: 100)")
    _add_format(parser)
    parser.set_defaults(run=_query)


def _add_usage(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = actions.add_parser("usage", help="report requests, tokens and cost from the journal")
    _add_location(parser)
    _add_period(parser)
    parser.add_argument(
        "--by",
        default="tenant,model,day",
        help="what rows are told apart by, of tenant, model, key, tier, endpoint, pool, replica, outcome, hour, day, "
        "month (default: tenant,model,day)",
    )
    parser.add_argument("--where", metavar="SQL", help="only requests for which this expression is true")
    parser.add_argument("--limit", type=_count, default=1000, metavar="N", help="most rows (default: 1000)")
    _add_format(parser)
    parser.set_defaults(run=_usage)


def _add_bench(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = actions.add_parser("bench", help="measure how fast this machine and disk take records")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="a folder on the disk to measure (default: here)")
    parser.add_argument("--records", type=_count, default=50_000, metavar="N", help="how many (default: 50000)")
    parser.add_argument("--rate", type=_count, default=10_000, metavar="N", help="how many a second (default: 10000)")
    parser.set_defaults(run=_bench)


def _add_location(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the journal's folder, instead of a configuration")


def _add_period(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", default="24h", metavar="TIME", help="how far back, such as 30m, 24h, 7d, or a time (default: 24h)"
    )
    parser.add_argument("--until", default="0s", metavar="TIME", help="likewise, up to when (default: now)")
    parser.add_argument("--tenant", metavar="NAME", help="only this tenant's requests")


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=["table", "json", "csv"], default="table", help="default: table")


def _verify(arguments: argparse.Namespace) -> int:
    try:
        location = locate_journal(arguments)
        key_file = arguments.key_file or location.key_file
        report = verify(location.folder, read_key(key_file) if key_file is not None else None)
    except OSError as error:
        # An unusable key has its own error message.
        fail("audit verify", f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return 2
    except ValueError as error:
        fail("audit verify", str(error))
        return 2
    if arguments.json:
        print_json(msgspec.to_builtins(report, enc_hook=str))
    else:
        _print_report(location.folder, report)
    return 1 if report.problems else 0


def _print_report(folder: Path, report: Report) -> None:
    for kind, findings in (("PROBLEM", report.problems), ("note", report.notes)):
        for found in findings:
            where = str(found.path) if found.block is None else f"{found.path}: block {found.block}"
            where += "" if found.offset is None else f" at byte {found.offset}"
            print(printable(f"{kind}: {where}: {found.problem}"))
    print(
        f"{folder}: {report.chains} chains, {report.segments} segments, {report.blocks} blocks ({report.keyed} with a "
        f"key), {report.entries} entries; {report.lost} records were lost before they could be written"
    )
    print("the journal is NOT what was written" if report.problems else "the journal is whole and unchanged")


def _query(arguments: argparse.Namespace) -> int:
    # Imported here and below: the database takes long to import, and `penstock --help` needs none.
    from gateway.cli.audit.audit_query import query

    return query(arguments)


def _usage(arguments: argparse.Namespace) -> int:
    from gateway.cli.audit.audit_query import usage

    return usage(arguments)


def _bench(arguments: argparse.Namespace) -> int:
    from gateway.cli.audit.audit_bench import bench

    return bench(arguments)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}")
    return int(text)
