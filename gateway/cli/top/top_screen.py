"""Draw `penstock top`: one frame of figures, replicas, tenants and errors, cut to the terminal's size."""

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live as Refreshed
from rich.table import Table
from rich.text import Text

from gateway.admin.live.view import Live, RecentError, TenantLive, Times
from gateway.cli.top.top_columns import GAP, Column, columns_table, figure, name
from gateway.cli.top.top_rows import Row, replica_rows, rollout_rows, route_row, times_cells
from gateway.cli.top.top_text import count, duration, number, share, shown_rate
from observability.printable import printable

#: From this width on, models, versions and requests' ids are shown.
_WIDE: Final = 110
#: From this many lines below them on, routes are shown too.
_ROOMY: Final = 24
_LONGEST: Final = 10_000
#: Where a tenant's row has its limit.
_LIMIT: Final = 4
#: Letters of a reason that say something.
_LEAST_WHY: Final = 10


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
    headline = _headline(live, width)
    yield from headline
    free = height - 1 - sum(table.row_count for table in headline) - len(notices)
    for table in _allotted(_sections(live, width), free, width):
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


def _headline(live: Live, width: int) -> list[Table]:
    """Make the figures: latencies, and numbers to their right, or below them where the width is not enough for both."""
    head = live.headline
    errors = Text(shown_rate(head.errors_per_second), "bold red" if head.errors_per_second else "bold")
    times: list[list[Text]] = [
        [Text(), *map(_dim, ("p50", "p95", "p99"))],
        [_dim("first token"), *_times(head.ttft)],
        [_dim("inter-token"), *_times(head.itl)],
        [_dim("request"), *_times(head.request)],
    ]
    first = [
        (_dim("req/s"), _bold(number(head.requests_per_second))),
        (_dim("errors/s"), errors),
        (_dim("in flight"), _bold(count(head.in_flight))),
    ]
    second = [
        (_dim("tok/s"), _bold(number(head.tokens_per_second))),
        (_dim("prompt tok/s"), _bold(number(head.prompt_tokens_per_second))),
        (_dim("queued"), _bold(count(head.queued))),
    ]
    numbers = [[*one, *other] for one, other in zip(first, second, strict=True)]
    # A wider gap between both, and nothing beside the titles of the latencies.
    right = [[Text()] * 5, *([Text(" "), *row] for row in numbers)]
    beside = [[*cells, *more] for cells, more in zip(times, right, strict=True)]
    if _width(beside) <= width:
        return [_grid(beside)]
    below = [[cell for pair in pairs for cell in pair] for pairs in (first, second)]
    return [_grid(times), _grid(below if _width(below) <= width else numbers)]


def _grid(rows: Sequence[Sequence[Text]]) -> Table:
    grid = Table.grid(padding=(0, GAP, 0, 0))
    for _ in rows[0]:
        grid.add_column(justify="right", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    return grid


def _width(rows: Sequence[Sequence[Text]]) -> int:
    widths: list[int] = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    return sum(widths) + GAP * (len(widths) - 1)


def _times(times: Times | None) -> list[Text]:
    return [_bold(cell) if place == 0 else Text(cell) for place, cell in enumerate(times_cells(times))]


class _Section(NamedTuple):
    """A table that can be cut; `left_out` rows are not even here."""

    weight: int
    columns: Sequence[Column]
    rows: Sequence[Row]
    left_out: int = 0

    def table(self, most: int, width: int) -> Table:
        """Return the header, which says how many rows are left out, and at most `most` of them."""
        left = self.left_out + max(0, len(self.rows) - most)
        return columns_table(self.columns, self.rows[:most], left, width)


def _sections(live: Live, width: int) -> list[_Section]:
    wide = width >= _WIDE
    replicas = [
        name("REPLICA"),
        Column("SHAPE", 2),
        Column("STATE"),
        figure("SHARE", 3),
        figure("RUN", 6),
        figure("WAIT", 5),
        figure("KV", 4),
        figure("OPEN", 1),
        Column("WHY", 7, least=_LEAST_WHY),
    ]
    if wide:
        replicas[0:0] = [name("MODEL", 7)]
        replicas[3:3] = [Column("ROLE", 1)]
        replicas[-1:-1] = [Column("VERSION", 1, least=12)]
    tenants = [_tenant(tenant) for tenant in live.tenants]
    # The model of a limit, in brackets behind it, may be cut.
    limits = max((len(row[_LIMIT][0].partition(" (")[0]) for row in tenants), default=0)
    tenant = [
        name("TENANT"),
        figure("REQ/S", 2),
        figure("TOK/S", 1),
        figure("REFUSED/S", 3),
        Column("FULLEST LIMIT", 5, least=limits),
        Column("BUDGET", 4),
    ]
    error = [
        Column("ERROR", 6),
        Column("OUTCOME"),
        figure("TIMES", 4),
        name("TENANT", 3),
        name("REPLICA", 5),
        Column("WHY", 7, least=_LEAST_WHY),
    ]
    if wide:
        error[-1:-1] = [figure("TOOK", 1), Column("REQUEST", 2)]
    route = [
        Column("ROUTE", 6),
        name("REPLICA"),
        Column("POLICY", 1),
        figure("CACHED", 4),
        figure("PREDICTED", 3),
        figure("TTFT", 5),
        Column("WHY", 2, least=_LEAST_WHY),
    ]
    rollouts = [
        name("ROLLOUT"),
        name("STABLE", 2),
        name("CANDIDATE", 4),
        Column("PHASE"),
        figure("SHARE", 3),
        Column("VERDICT", 6),
        Column("WAITS", 1, least=_LEAST_WHY),
    ]
    return [
        _Section(2, rollouts, rollout_rows(live)),
        _Section(4, replicas, replica_rows(live, wide)),
        _Section(2, tenant, tenants, live.tenants_left_out),
        _Section(2, error, [_error(error, wide) for error in live.errors]),
        _Section(1, route, [route_row(route) for route in live.routes]),
    ]


def _allotted(sections: Sequence[_Section], lines: int, width: int) -> Iterator[Table]:
    """Fit tables into the lines; the last one, routes, appears only where there is plenty of room."""
    shown = [section for section in sections if section.rows]
    if lines < _ROOMY and shown and shown[-1] is sections[-1]:
        shown.pop()
    # A blank line and the header come on top of the rows.
    rows = allot([len(one.rows) for one in shown], [one.weight for one in shown], lines - 2 * len(shown))
    for section, most in zip(shown, rows, strict=True):
        if most > 0:
            yield section.table(most, width)


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
