"""The report of `penstock init`: what was found where, what is proposed and what is not."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.scan.finding import Finding, Kind
from gateway.scan.proposal.proposed import Proposal, ProposedModel
from gateway.scan.providers import BASE_VARIABLES
from gateway.scan.scan import Scan
from gateway.scan.sizing.fit import Placement
from observability.printable import printable
from observability.terminal import fitted

_MOST_SKIPPED: Final = 20
_WIDTH: Final = 160
#: A terminal of so many columns has room for long cells on several lines.
_FOLDED_WIDTH: Final = 100
_LONGEST: Final = 10_000


def report(scan: Scan, proposal: Proposal) -> dict[str, Any]:
    """The whole report as plain values."""
    return {
        "files": scan.files,
        "models": [_model(one) for one in proposal.models],
        "left_out": [
            {"name": name, "reason": reason, "at": [one.where for one in findings]}
            for name, reason, findings in proposal.left_out
        ],
        "tenants": {name: list(models) for name, models in proposal.tenants.items()},
        "variables": list(proposal.variables),
        "notes": list(proposal.notes),
        "clients": [{"at": one.where, "base_url": one.base_url} for one in _clients(scan)],
        "findings": [_finding(one) for one in scan.findings],
        "skipped": [{"file": file, "reason": reason} for file, reason in scan.skipped],
        "skipped_unlisted": scan.unlisted,
    }


def print_report(scan: Scan, proposal: Proposal) -> None:
    """Print tables of findings and models, then what was left out and skipped, a line each."""
    # Where nobody sees its width, such as in a file, a table is as wide as it needs to be.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    found = [
        (f"{one.kind.value}{' (tests)' if one.of_tests else ''}", one.value, one.how, one.where)
        for one in scan.findings
    ]
    files = f"{scan.files} file{'' if scan.files == 1 else 's'}"
    _print_table(console, f"Found in {files}", ("Kind", "What", "How", "At"), found)
    if proposal.models:
        columns = ("Model", "Served by", "Weights", "KV cache", "Shape", "Fits on")
        _print_table(console, "Proposed", columns, list(map(_row, proposal.models)))
    for line in _lines(scan, proposal):
        console.print(_text(line), soft_wrap=True)


def _print_table(console: Console, title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table; on a narrow terminal that it does not fit on, a block for each row."""
    made = Table(title=title, title_justify="left")
    for column in header:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*map(_text, row))
    needed = console.measure(made, options=console.options.update(max_width=_LONGEST)).maximum
    if console.width >= min(needed, _FOLDED_WIDTH) or not rows:
        console.print(made)
        return
    console.print(title, style="bold")
    for line in fitted([header, *rows], 0):
        console.print(_text(line), soft_wrap=True)
    console.print()


def _lines(scan: Scan, proposal: Proposal) -> Iterator[str]:
    for name, reason, findings in proposal.left_out:
        yield f"not proposed: {name}, {reason} ({findings[0].where})"
    for model in proposal.models:
        sizing = model.sizing
        if sizing is not None and sizing.need.weights is not None and sizing.placed is None:
            shapes = ", ".join(one.shown for one in sizing.elsewhere)
            yield f"{model.name} does not fit on the GPUs that were given; it would on: {shapes or 'no shape tried'}"
    for note in proposal.notes:
        yield f"note: {note}"
    if proposal.variables:
        yield f"variables that the gateway needs: {', '.join(proposal.variables)}"
    for tenant, models in proposal.tenants.items():
        yield f"tenant {tenant}: {', '.join(models)}"
    clients = dict.fromkeys(f"{one.where} ({one.base_url or _unset(one)})" for one in _clients(scan))
    if clients:
        yield f"base URLs to point at the gateway: {', '.join(clients)}"
    for file, reason in scan.skipped[:_MOST_SKIPPED]:
        yield f"skipped: {file or '.'}: {reason}"
    more = len(scan.skipped) - _MOST_SKIPPED + scan.unlisted
    if more > 0:
        yield f"skipped: {more} more (--json lists them)"


def _clients(scan: Scan) -> list[Finding]:
    """Where the application says which server it asks: that is what changes for the gateway."""
    return [one for one in scan.findings if one.kind is Kind.CLIENT and not one.of_tests]


def _unset(client: Finding) -> str:
    return f"none: {BASE_VARIABLES[client.provider][0]} gives {client.how} one"


def _row(model: ProposedModel) -> tuple[str, ...]:
    sizing = model.sizing
    if sizing is None:
        return (model.name, f"{model.provider}, {model.addresses[0]}", "-", "-", "-", "-")
    weights = "unknown" if sizing.need.weights is None else f"{_gib(sizing.need.weights)} ({sizing.quantisation})"
    kv = sizing.need.kv_per_token
    each = "unknown" if kv is None else "none" if not kv else f"{kv / 1024:.0f} KiB a token"
    shape = sizing.placed.shown if sizing.placed else "unknown" if sizing.need.weights is None else "does not fit"
    fitting = ", ".join(one.shown for one in sizing.fitting or sizing.elsewhere) or "-"
    return (model.name, f"{model.engine}, {model.addresses[0]}", weights, each, shape, fitting)


def _model(model: ProposedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "aliases": list(model.aliases),
        "task": model.task.value,
        "provider": model.provider,
        "engine": model.engine,
        "addresses": list(model.addresses),
        "address_found": model.address_found,
        "key_variable": model.key_variable,
        "context": model.context,
        "at": [one.where for one in model.findings],
        "command": model.command,
        "sizing": _sizing(model),
    }


def _sizing(model: ProposedModel) -> Mapping[str, Any] | None:
    sizing = model.sizing
    if sizing is None:
        return None
    return {
        "weight_bytes": sizing.need.weights,
        "kv_bytes_per_token": sizing.need.kv_per_token,
        "quantisation": sizing.quantisation,
        "notes": list(sizing.notes),
        "placed": _placement(sizing.placed) if sizing.placed else None,
        "fits_on": [_placement(one) for one in sizing.fitting],
        "would_fit_on": [_placement(one) for one in sizing.elsewhere],
        "kv_tokens": sizing.kv_tokens,
    }


def _placement(placed: Placement) -> dict[str, Any]:
    return {
        "gpu": placed.gpu.name,
        "tp": placed.tp,
        "pp": placed.pp,
        "used_bytes": placed.used,
        "usable_bytes": placed.usable,
        "usd_per_hour": placed.usd_per_hour,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    key = {"variable": finding.value} if finding.kind is Kind.KEY else {}
    return {
        "at": finding.where,
        "kind": finding.kind.value,
        "value": finding.value,
        "how": finding.how,
        "provider": finding.provider,
        "task": finding.task.value,
        "base_url": finding.base_url,
        "engine": finding.engine,
        "of_tests": finding.of_tests,
        **key,
    }


def _text(text: str) -> Text:
    """A cell as it stands: no markup of the scanned files is followed."""
    return Text(printable(text))


def _gib(size: float) -> str:
    return f"{size / (1 << 30):.1f} GiB"
