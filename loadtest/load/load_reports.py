"""Prints the results of load benchmarks as tables, with rich."""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console

from loadtest.load.batch_drain import Drain
from loadtest.load.breakdown import Bar
from loadtest.load.fairness import Fairness
from loadtest.load.filter_load import LONG_PROMPT, TERMS
from loadtest.load.long_prompts import LongPrompts
from loadtest.load.overhead import MODES, AddedCost, Cell, load_name
from loadtest.load.parsed_answers import PARSED
from loadtest.load.soak import SoakResult
from loadtest.load.stack import Variant
from loadtest.reports.console import _WIDTH, new_table
from loadtest.reports.statistics import Percentiles

#: Share of a core used by other processes from which on a warning is printed.
_NOISE: Final = 0.1


def print_overhead(cells: Sequence[Cell], repeat: int, out: Console) -> None:
    """Print tables of costs and latencies, and an explanation of their columns."""
    costs = new_table(
        "What a request and a token cost" + (f" (medians of {repeat} runs)" if repeat > 1 else ""),
        *("mode", "clients", "req/s", "tok/s", "us/req", "us/token", "busy", "MB", "errors"),
    )
    latencies = new_table(
        "Latency, ms: p50/p90/p99",
        *("mode", "clients", "first token", "added, p99", "between tokens", "whole request"),
    )
    for cell in cells:
        costs.add_row(
            _load_name(cell.mode, cell.variant, out),
            f"{cell.concurrency:,}",
            _number(cell.requests_per_s, 0 if cell.requests_per_s >= 100 else 1),
            _number(cell.tokens_per_s, 0),
            _two(cell.worker_us_per_request, cell.tree_us_per_request),
            _two(cell.worker_us_per_token, cell.tree_us_per_token),
            f"{cell.worker_busy:.0%}/{cell.load_busy:.0%}",
            _two(cell.worker_mb, cell.worker_peak_mb),
            _errors(cell.errors),
        )
        least, most = cell.added_ttft_least_ms, cell.added_ttft_most_ms
        latencies.add_row(
            _load_name(cell.mode, cell.variant, out),
            f"{cell.concurrency:,}",
            _three(cell.ttft_ms),
            f"{_short(least.p99)} to {_short(most.p99)}" if least and most else "-",
            _three(cell.itl_ms),
            _three(cell.e2e_ms),
        )
    out.print(costs)
    out.print(latencies)
    step = MODES["paced"].step_ms
    out.print(
        "us: CPU time of the worker/of the gateway's whole process tree, with its supervisor and the store. Busy: the "
        "worker/engine and load client on the other core; near 100% those were the limit. MB (10^6 bytes): the "
        "worker's resident memory/its peak since this gateway started.\n"
        f"Added: to the first token, what the paced engine cannot have taken. It needs {step:g} ms when idle, up to "
        f"{2 * step:g} when a step has just begun, as nearly always in a closed loop; both bounds are shown."
    )
    _warn_of_others([cell.others_busy for cell in cells], out)


def print_added(costs: Sequence[AddedCost], out: Console) -> None:
    """Print the cost added by limits, filters and telemetry beside that of the plain load."""
    table = new_table(
        "What is added to the plain load",
        *("mode", "clients", "runs", "us/request", "us/token", "store calls/request"),
    )
    for cost in costs:
        table.add_row(
            _load_name(cost.mode, cost.variant, out),
            f"{cost.concurrency:,}",
            str(cost.runs),
            _two(cost.worker_us_per_request, cost.tree_us_per_request),
            _two(cost.worker_us_per_token, cost.tree_us_per_token),
            _number(cost.batches_per_request, 2),
        )
    out.print(table)
    out.print("Differences within each run, medians: the worker/the gateway's whole process tree, the store included.")
    slow = sum(cost.slow for cost in costs)
    if slow:
        runs = slow + sum(cost.runs for cost in costs)
        out.print(
            f"{slow} of {runs} runs are left out: beside them the gateway's core took much longer than it can for a "
            "fixed loop, as where other machines share its hardware."
        )
    variants = {cost.variant for cost in costs}
    if "limited" in variants:
        out.print(
            "Limits: of requests, tokens and concurrency, a budget, and their accounting. A request reserves and "
            "settles, two store calls when it is alone; requests of one moment share them."
        )
    if "observed" in variants:
        out.print(
            "Observed: metrics, a journal on disk, and traces of 1 % of the requests that a collector takes. The plain "
            "load runs on a gateway without any of them."
        )
    if not variants.isdisjoint(PARSED):
        out.print(
            "Parsed, thinking, calling: text, a thought and a call of a tool, from a model whose answers are taken "
            "apart; as many tokens as the plain load's. What the request for a call adds, whose tool is in the prompt, "
            "is shared among its tokens."
        )
    if "filtered" in variants:
        out.print(
            f"Filters: personal data, prompt injection and a blocklist of {TERMS:,} terms, on prompts and "
            f"answers; nothing matches. Here all loads have prompts of {len(LONG_PROMPT):,} characters and the policy "
            "least_load."
        )


def print_fairness(results: Sequence[Fairness], out: Console) -> None:
    """Print a light tenant's TTFT, alone and beside a flood."""
    table = new_table(
        "A light tenant's time to first token beside a flood of long prompts, ms: p50/p90/p99",
        *("flood's prompts", "answered", "context", "runs", "alone", "beside", "p99 ratio", "errors"),
    )
    for result in results:
        table.add_row(
            f"{result.prompt_tokens:,} tokens",
            f"{result.flood_requests:,} of {result.flood_clients} clients",
            f"{result.context:,}",
            str(result.runs),
            _three(result.alone_ms),
            _three(result.beside_ms),
            f"{result.ratio:.2f}",
            str(result.errors),
        )
    out.print(table)
    out.print("The ratio is of the p99 beside the flood and alone: the median of each run's own.")


def print_drain(result: Drain, out: Console) -> None:
    """Print the rates of a batch and an interactive client, each alone and both together."""
    table = new_table(
        f"A batch beside {result.clients} interactive clients on {result.slots} slots, medians of {result.runs} runs",
        *("client's first token, ms: p50/p90/p99", "alone", "beside", "p99 ratio", "errors"),
    )
    table.add_row("", _three(result.alone_ms), _three(result.beside_ms), f"{result.ratio:.3f}", str(result.errors))
    out.print(table)
    out.print(
        f"The batch drains {result.batch_alone:,.0f} tokens/s alone and {result.batch_beside:,.0f} beside the clients' "
        f"{result.client_beside:,.0f}: {result.share:.1%} of the {result.free:,.0f} that were free."
    )


def print_prompts(results: Sequence[LongPrompts], out: Console) -> None:
    """Print what long prompts cost, and how late the event loop was."""
    table = new_table(
        "Long prompts",
        *("load", "tokens", "req/s", "CPU ms/req", "busy", "MB", "probe, ms", "alone", "whole request, ms"),
        *("most open", "errors"),
    )
    for result in results:
        table.add_row(
            result.load,
            f"{result.prompt_tokens:,}",
            f"{result.requests_per_s:.1f}",
            f"{result.cpu_ms:.1f}",
            f"{result.workers_busy:.2f}",
            f"{result.worker_mb:.0f}",
            _three(result.probe_ms),
            _three(result.probe_alone_ms),
            _three(result.e2e_ms),
            str(result.most_open),
            _errors(result.errors),
        )
    out.print(table)
    out.print(
        "Shared: the first tokens of all prompts; the rest of each is new. A conversation's prompt has a turn more "
        "than the one before. The last two loads are open, of 220 KB, on two workers. CPU and busy (in cores): of the "
        "workers. Probe: p50/p90/p99 of a round trip to /healthz, an upper bound of the event loop's lag; alone: "
        "without a load."
    )
    _warn_of_others([result.others_busy for result in results], out)


def print_breakdown(bars: Sequence[Bar], out: Console) -> None:
    """Print the figure as a table."""
    table = new_table(
        "Mean latency of a request that is not streamed, ms",
        *("clients", "requests", "gateway", "engine queue", "engine", "whole", "gateway share", "tokens/answer"),
        *("tokens/s", "load busy", "errors"),
        left=0,
    )
    for bar in bars:
        table.add_row(
            str(bar.concurrency),
            str(bar.requests),
            f"{bar.gateway_ms:.2f}",
            f"{bar.queue_ms:.2f}",
            f"{bar.engine_ms:.1f}",
            f"{bar.total_ms:.1f}",
            f"{bar.gateway_share:.2%}",
            f"{bar.output_tokens:.0f}",
            f"{bar.tokens_per_s:,.0f}",
            f"{bar.load_busy:.0%}",
            _errors(bar.errors),
        )
    out.print(table)
    out.print(
        "Gateway: the client's whole time less the engine's own two, ScaleLLM's (t2 - t0) + (t5 - t3). It holds the "
        "gateway, both networks and the client; where the load's core is near 100% busy, waiting for that core too."
    )
    _warn_of_others([bar.others_busy for bar in bars], out)


def _load_name(mode: str, variant: Variant, out: Console) -> str:
    """Format a load's name, on two lines where the terminal is narrow."""
    name = load_name(mode, variant)
    return name if out.width >= _WIDTH else name.replace(", ", ",\n")


def _warn_of_others(shares: Sequence[float], out: Console) -> None:
    worst = max(shares, default=0.0)
    if worst > _NOISE:
        out.print(
            f"WARNING: other processes used up to {worst:.0%} of a core meanwhile. They make gateway, engine and "
            "client wait: latencies and rates are worse than they would be, most of all near saturation.",
            style="bold yellow",
        )


def print_soak(result: SoakResult, out: Console) -> None:
    """Print the series, its slope and the verdict."""
    table = new_table(f"Worker memory after {result.warmup:,} requests of warm-up", "requests", "MB", left=0)
    for ended, memory in result.series:
        table.add_row(f"{ended:,}", f"{memory:.1f}")
    out.print(table)
    verdict = "flat" if result.passed else "NOT flat"
    out.print(
        f"{verdict}: {result.growth_mb:+.1f} MB over {result.requests:,} requests (bound {result.bound_mb:g} MB), "
        f"slope {result.mb_per_100k:+.2f} MB for 100,000; {result.requests / result.seconds:,.0f} requests/s, "
        f"errors: {_errors(result.errors)}"
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _two(first: float | None, second: float | None) -> str:
    return "-" if first is None or second is None else f"{_short(first)}/{_short(second)}"


def _three(value: Percentiles | None) -> str:
    return "-" if value is None else "/".join(map(_short, (value.p50, value.p90, value.p99)))


def _short(value: float) -> str:
    """Format with about three significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _errors(errors: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in errors.items()) or "0"
