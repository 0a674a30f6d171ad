"""Draw `penstock top`: one frame of figures, replicas, tenants and errors, cut to the terminal's size."""

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live as Refreshed
from rich.table import Table
from rich.text import Text

from gateway.admin.live.view import Live, RecentError, TenantLive, Times
from gateway.cli.top.top_rows import Row, replica_rows, route_row, times_cells
from gateway.cli.top.top_text import count, duration, number, share, shown_rate
from observability.printable import printable

#: From this width on, reasons, versions and requests' ids are shown.
_WIDE: Final = 110
#: Lines of the title and of the figures.
_FIXED: Final = 5
#: From this many lines below them on, routes are shown too.
_ROOMY: Final = 24
_LONGEST: Final = 10_000


class Screen:
    """Draw the last snapshot at the terminal's current size. `problem` is why there is no newer one."""

    def __init__(self, live: Live, url: str) -> None:
        self.live = live
        self.url = url
        self.problem = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or _LONGEST
        yield from _frame(self.live, self.url, self.problem, options.max_width, height)


@contextlib.contextmanager
def full_screen(screen: Screen) -> Iterator[Callable[[], None]]:
    """Take over the whole terminal until the block ends, then restore it; yields the function that redraws."""
    refreshed = Refreshed(screen, screen=True, auto_refresh=False, vertical_overflow="crop")
    try:
        # Inside the block, for Ctrl-C may come before its end.
        refreshed.start(refresh=True)
        yield refreshed.refresh
    finally:
        refreshed.stop()


def plain(live: Live, url: str, width: int) -> str:
    """Return everything as text of any length."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as captured:
        for part in _frame(live, url, "", width, _LONGEST):
            console.print(part)
    lines = captured.get().splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _frame(live: Live, url: str, problem: str, width: int, height: int) -> Iterator[Text | Table]:
    notices = [_cut(f"! {printable(text)}", width, "yellow") for text in ([problem] if problem else []) + live.problems]
    yield _title(live, url, bool(problem), width)
    yield from notices
    yield _headline(live)
    replicas, tenants, errors, routes = _sections(live, width)
    free = height - _FIXED - len(notices)
    for table in _allotted([replicas, tenants, errors, routes], free):
        yield Text("")
        yield table


def _title(live: Live, url: str, stale: bool, width: int) -> Text:
    at = datetime.fromtimestamp(live.time).astimezone().strftime("%H:%M:%S")
    window = f"last {live.seconds:.0f} s" if live.seconds else "gathering"
    text = Text("penstock top", "bold")
    text.append(f"  {printable(url)}  ", "dim")
    text.append(f"stale since {at}" if stale else at, "bold yellow" if stale else "")
    text.append(f"  {window}", "dim")
    text.truncate(width, overflow="ellipsis")
    return text


def _headline(live: Live) -> Table:
    """Make the four lines of figures: latencies to the left, numbers to the right."""
    head = live.headline
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(4):
        grid.add_column(justify="right", no_wrap=True)
    grid.add_column(width=1)
    for _ in range(4):
        grid.add_column(justify="right", no_wrap=True)
    errors = Text(shown_rate(head.errors_per_second), "bold red" if head.errors_per_second else "bold")
    right: list[Sequence[str | Text]] = [
        ("req/s", _bold(number(head.requests_per_second)), "tok/s", _bold(number(head.tokens_per_second))),
        ("errors/s", errors, "prompt tok/s", _bold(number(head.prompt_tokens_per_second))),
        ("in flight", _bold(count(head.in_flight)), "queued", _bold(count(head.queued))),
    ]
    left: list[Sequence[str | Text]] = [
        (_dim("first token"), *_times(head.ttft)),
        (_dim("inter-token"), *_times(head.itl)),
        (_dim("request"), *_times(head.request)),
    ]
    grid.add_row("", *map(_dim, ("p50", "p95", "p99")), "", "", "", "", "")
    for times, (first, one, second, other) in zip(left, right, strict=True):
        grid.add_row(*times, "", _dim(str(first)), one, _dim(str(second)), other)
    return grid


def _times(times: Times | None) -> list[Text]:
    return [_bold(cell) if place == 0 else Text(cell) for place, cell in enumerate(times_cells(times))]


class _Section:
    """A table that can be cut; its header says how many rows are left out. Titles that begin with `>` head numbers."""

    def __init__(self, weight: int, header: Sequence[str], rows: Sequence[Row], left_out: int = 0) -> None:
        self.weight = weight
        self.header = header
        self.rows = rows
        self.left_out = left_out

    def table(self, most: int) -> Table:
        """Return the header and at most this many rows."""
        left = self.left_out + max(0, len(self.rows) - most)
        table = Table(box=None, padding=(0, 2, 0, 0), expand=True, header_style="dim", show_edge=False)
        for place, title in enumerate(self.header):
            more = f" +{left}" if place == 0 and left else ""
            table.add_column(
                Text(title.removeprefix(">") + more),
                justify="right" if title.startswith(">") else "left",
                no_wrap=True,
                overflow="ellipsis",
                ratio=1 if place == len(self.header) - 1 else None,
            )
        for row in self.rows[:most]:
            table.add_row(*(Text(printable(cell), style) for cell, style in row))
        return table


def _sections(live: Live, width: int) -> list[_Section]:
    wide = width >= _WIDE
    replicas = ["REPLICA", "SHAPE", "STATE", ">SHARE", ">RUN", ">WAIT", ">KV", ">OPEN", "WHY"]
    if wide:
        replicas[0:0] = ["MODEL"]
        replicas[3:3] = ["ROLE"]
        replicas[-1:-1] = ["VERSION"]
    tenants = ["TENANT", ">REQ/S", ">TOK/S", ">REFUSED/S", "FULLEST LIMIT", "BUDGET"]
    errors = ["ERROR", "OUTCOME", ">TIMES", "TENANT", "REPLICA", "WHY"]
    if wide:
        errors[-1:-1] = [">TOOK", "REQUEST"]
    routes = ["ROUTE", "REPLICA", "POLICY", ">CACHED", ">PREDICTED", ">TTFT", "WHY"]
    return [
        _Section(4, replicas, replica_rows(live, wide)),
        _Section(2, tenants, [_tenant(tenant) for tenant in live.tenants], live.tenants_left_out),
        _Section(2, errors, [_error(error, wide) for error in live.errors]),
        _Section(1, routes, [route_row(route) for route in live.routes]),
    ]


def _allotted(sections: Sequence[_Section], lines: int) -> Iterator[Table]:
    """Fit tables into the lines; the last one, routes, appears only where there is plenty of room."""
    shown = [section for section in sections if section.rows]
    if lines < _ROOMY and shown and shown[-1] is sections[-1]:
        shown.pop()
    # A blank line and the header come on top of the rows.
    rows = allot([len(one.rows) for one in shown], [one.weight for one in shown], lines - 2 * len(shown))
    for section, most in zip(shown, rows, strict=True):
        if most > 0:
            yield section.table(most)


def allot(needs: Sequence[int], weights: Sequence[int], rows: int) -> list[int]:
    """Divide `rows` among the tables by weight; none gets more than it needs."""
    given = [0] * len(needs)
    for _ in range(min(rows, sum(needs))):
        wanting = [place for place, need in enumerate(needs) if given[place] < need]
        given[min(wanting, key=lambda place: (given[place] + 1) / weights[place])] += 1
    return given


def _tenant(tenant: TenantLive) -> Row:
    scopes = tenant.scopes or []
    limits = [(one.used / one.limit, scope.scope, one) for scope in scopes for one in scope.limits]
    fullest, limit_style = "-" if tenant.scopes is None else "", ""
    if limits:
        part, scope, limit = max(limits, key=lambda found: found[0])
        of = "" if scope == "tenant" else f" ({scope.removeprefix('model:')})"
        fullest = f"{share(part)} {limit.name} {count(limit.used)}/{count(limit.limit)}{of}"
        limit_style = _fullness(part)
    budgets = [scope.budget for scope in scopes if scope.budget is not None]
    money, money_style = "", ""
    if budgets:
        budget = max(budgets, key=lambda found: found.spent_usd / found.limit_usd)
        part = budget.spent_usd / budget.limit_usd
        money, money_style = f"{share(part)} of ${budget.limit_usd:g}", _fullness(part)
    refused = tenant.refused_per_second
    return [
        (tenant.name, "bold"),
        (number(tenant.requests_per_second), ""),
        (number(tenant.tokens_per_second), ""),
        (number(refused), "yellow" if refused else ""),
        (fullest, limit_style),
        (money, money_style),
    ]


def _fullness(part: float) -> str:
    return "red" if part >= 1 else "yellow" if part >= 0.9 else ""


def _error(error: RecentError, wide: bool) -> Row:
    at = datetime.fromtimestamp(error.time).astimezone().strftime("%H:%M:%S")
    more = [(duration(error.seconds), ""), (error.id, "dim")] if wide else []
    why = error.detail or error.code
    return [
        (at, ""),
        (error.outcome, "red"),
        (str(error.times), ""),
        (error.tenant, ""),
        (error.replica or error.model, ""),
        *more,
        (why, ""),
    ]


def _cut(text: str, width: int, style: str) -> Text:
    line = Text(text, style)
    line.truncate(width, overflow="ellipsis")
    return line


def _bold(text: str) -> Text:
    return Text(text, "bold")


def _dim(text: str) -> Text:
    return Text(text, "dim")
