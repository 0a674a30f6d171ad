"""Measures the gateway's overhead: CPU per request and per streamed token, memory, and added latency."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from string import ascii_lowercase
from typing import Final, Literal

import msgspec

from loadtest.load.client import LoadResult, LoadSpec
from loadtest.load.filter_load import LONG_PROMPT
from loadtest.load.parsed_answers import PARSED, require_parsed_answers
from loadtest.load.parsing_load import prompt_and_members
from loadtest.load.processes import BenchError, choose_cores, loop_us, memory_mb
from loadtest.load.same_answers import require_same_answers
from loadtest.load.stack import Stack, Variant, chat_body, gateway_stack, upstream_stack
from loadtest.load.track import Track
from loadtest.reports.statistics import Percentiles, median_or_none, median_percentiles, percentiles

PROMPT: Final = (
    "Write a short story about a lighthouse keeper who finds a message in a bottle, and explain what it says in detail."
)
#: The engines of gateway/config/models/engines.py that a benchmark can run without a GPU.
BenchEngine = Literal["simulated", "trtllm_grpc", "openai"]
CONCURRENCIES: Final = (1, 64, 256, 1024)
#: Different prompts of one load.
_PROMPTS: Final = 8192
#: A core on which a fixed loop takes more than this multiple of its best time is shared with other work; differences
#: use runs below it, if there are at least this many.
_CALM: Final = 1.2
_ENOUGH: Final = 3
#: Number of answers that are compared before a load with filters.
_COMPARED: Final = 16


@dataclass(frozen=True, slots=True)
class Mode:
    """A kind of load.

    A window has `lives` answers per client and at least `least`; for a single client it has `least_alone`.
    """

    engine: tuple[str, ...]
    stream: bool
    lives: int
    least: int
    least_alone: int
    step_ms: float = 0.0
    output_tokens: int = 128

    def requests(self, concurrency: int) -> int:
        """Return the default number of answers in a window."""
        return max(self.lives * concurrency, self.least) if concurrency > 1 else self.least_alone

    @property
    def ramp_seconds(self) -> float:
        """Duration of one answer: clients of a paced engine start spread over it and stay spread."""
        return self.output_tokens * self.step_ms / 1e3


MODES: Final = {
    "unary": Mode(("--instant", "--output-tokens", "14"), False, 2, 6000, 400, output_tokens=14),
    "paced": Mode(("--pace-ms", "20", "--output-tokens", "128"), True, 3, 0, 3, step_ms=20.0),
    "stream": Mode(("--instant", "--output-tokens", "128"), True, 2, 1000, 60),
}


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One load's measurements. CPU in microseconds, times in ms, memory in MB (10^6 bytes).

    `variant`: the key of a `limited` load has limits on requests, tokens and concurrency, and a budget; a `filtered`
    load is checked for personal data, prompt injection and the terms of a blocklist; an `observed` one goes to a
    gateway with metrics, a journal and traces of 1 %, which all others lack. Answers of `parsed`, `thinking` and
    `calling` loads are parsed: they are text, reasoning, and a tool call.
    `worker` is the worker process, `tree` the gateway with its supervisor and the store. `load_busy` is the share of
    the load's core that engine and client used: near 1 they were the bottleneck, not the gateway. `others_busy` is the
    share of a core, the worse of the two, used by other processes, which delay everything. `core_loop_us` is the time
    of a fixed loop on the gateway's core, the longer of before and after the load: a measure of that core's speed.
    `added_ttft_most_ms` is TTFT less one step, the paced engine's shortest TTFT; `added_ttft_least_ms` is TTFT less two
    steps, for a request that waits for a step that has just begun. In a closed loop nearly all do: a client sends its
    next request when a step has ended. The gateway's added TTFT lies between.
    """

    mode: str
    variant: Variant
    concurrency: int
    requests: int
    errors: dict[str, int]
    statuses: dict[int, int]
    seconds: float
    requests_per_s: float
    tokens_per_s: float | None
    worker_us_per_request: float | None
    tree_us_per_request: float | None
    worker_us_per_token: float | None
    tree_us_per_token: float | None
    batches_per_request: float | None
    worker_busy: float
    load_busy: float
    others_busy: float
    core_loop_us: float
    worker_mb: float
    worker_peak_mb: float
    ttft_ms: Percentiles | None
    added_ttft_most_ms: Percentiles | None
    added_ttft_least_ms: Percentiles | None
    itl_ms: Percentiles | None
    e2e_ms: Percentiles | None


class AddedCost(msgspec.Struct, frozen=True, kw_only=True):
    """CPU that a variant adds to a plain load, in microseconds: medians over runs of the differences.

    `slow` further runs are left out because the core was slow in one of their two windows.
    `batches_per_request` are script calls to the store, each for the requests of one event-loop tick.
    """

    mode: str
    variant: Variant
    concurrency: int
    runs: int
    slow: int
    worker_us_per_request: float | None
    tree_us_per_request: float | None
    worker_us_per_token: float | None
    tree_us_per_token: float | None
    batches_per_request: float | None


def overhead(
    concurrencies: Sequence[int],
    modes: Sequence[str],
    *,
    requests: int | None = None,
    repeat: int = 1,
    rounds: int = 1,
    beside: Sequence[Variant] = (),
    engine: BenchEngine = "simulated",
    show: Callable[[str, float, int], None] | None = None,
) -> tuple[list[Cell], list[AddedCost]]:
    """Measure every mode at every concurrency, `repeat` times, each with a fresh gateway; return medians.

    Each gateway gets `rounds` of all its loads: on a machine of varying speed many short windows side by side show a
    difference better than a few long ones.
    `engine` is the gateway's engine by its configuration name. The variants `beside` the plain load run on the same
    gateway in turn (`observed` ones and those with parsed answers on others beside it), and their added cost is
    returned too; with `filtered` among them all have long prompts, no two the same.
    `show` gets the progress, see `Track`. Raises BenchError.
    """
    variants: tuple[Variant, ...] = ("plain", *beside)
    filters = "filtered" in variants
    taken_apart = [variant for variant in variants if variant in PARSED]
    if taken_apart and engine == "openai":
        raise BenchError("an upstream's answers come in the API's own form: there is nothing to take apart")
    start = partial(_stack, engine, cores=choose_cores(), filters=filters)
    track = Track(repeat * len(modes) * len(concurrencies) * rounds * len(variants), show)
    found: dict[tuple[str, int, Variant], list[Cell]] = {}
    # A repeated prompt is cached as clean and costs next to nothing.
    serial = (f"{''.join(letters)}: {LONG_PROMPT[:-8]}" for letters in product(ascii_lowercase, repeat=6))
    for turn in range(repeat):
        for name in modes:
            mode = MODES[name]
            body = partial(_body, mode)
            track.at(f"{name}: starting a gateway")
            with ExitStack() as ending:
                stack = ending.enter_context(start(mode))
                stacks = dict.fromkeys(variants, stack)
                if "observed" in variants:
                    # Beside the other gateway, which is idle while this one is measured.
                    stacks["observed"] = ending.enter_context(start(mode, observed=True))
                if taken_apart:
                    parsed = ending.enter_context(start(mode, parsed=True))
                    stacks |= dict.fromkeys(taken_apart, parsed)
                    require_parsed_answers(parsed, {variant: body(variant, PROMPT) for variant in taken_apart})
                if filters:
                    require_same_answers(stack, [body("plain", LONG_PROMPT, seed=seed) for seed in range(_COMPARED)])
                for concurrency, round_ in product(concurrencies, range(rounds)):
                    for variant in in_turn(variants, turn + round_):
                        wanted = mode.requests(concurrency) if requests is None else requests
                        prompts = list(islice(serial, min(wanted, _PROMPTS))) if filters else [PROMPT]
                        bodies = [body(variant, prompt) for prompt in prompts]
                        cell = _measure(stacks[variant], name, variant, concurrency, bodies, wanted, track)
                        found.setdefault((name, concurrency, variant), []).append(cell)
                        track.part_done()
    fastest = min(cell.core_loop_us for cells in found.values() for cell in cells)
    costs = [
        added_cost(found[name, concurrency, "plain"], cells, fastest)
        for (name, concurrency, variant), cells in found.items()
        if variant != "plain"
    ]
    return [combine(cells) for cells in found.values()], costs


def in_turn(variants: tuple[Variant, ...], turn: int) -> tuple[Variant, ...]:
    """Rotate the variants: later ones find a warmer process, so each comes first in turn."""
    first = turn % len(variants)
    return (*variants[first:], *variants[:first])


def load_name(mode: str, variant: Variant) -> str:
    """Return a load's name for reports."""
    names = {"plain": "", "limited": "limits", "filtered": "filters"}
    name = names.get(variant, variant)
    return f"{mode}, {name}" if name else mode


def _body(mode: Mode, variant: Variant, prompt: str, **more: object) -> bytes:
    prompt, tools = prompt_and_members(variant, prompt)
    return chat_body(prompt, stream=mode.stream, max_tokens=mode.output_tokens, **tools, **more)


def _stack(
    engine: BenchEngine,
    mode: Mode,
    *,
    cores: tuple[int, int],
    filters: bool,
    observed: bool = False,
    parsed: bool = False,
) -> "AbstractContextManager[Stack]":
    if engine == "openai":
        return upstream_stack(mode.output_tokens, mode.step_ms, filters=filters, observed=observed, cores=cores)
    return gateway_stack(
        list(mode.engine), transport=engine, filters=filters, observed=observed, parsed=parsed, cores=cores
    )


def added_cost(plain: Sequence[Cell], variant: Sequence[Cell], fastest: float) -> AddedCost:
    """Return a variant's added cost from cells of the same load, run by run.

    Runs in which the fixed loop took much longer than `fastest` (microseconds) are left out, if enough remain.
    """
    first = variant[0]
    every = list(zip(plain, variant, strict=True))
    calm = [pair for pair in every if max(cell.core_loop_us for cell in pair) <= _CALM * fastest]
    pairs = calm if len(calm) >= _ENOUGH else every

    def added(name: str) -> float | None:
        return median_or_none(
            [
                None if getattr(a, name) is None or getattr(b, name) is None else getattr(b, name) - getattr(a, name)
                for a, b in pairs
            ]
        )

    return AddedCost(
        mode=first.mode,
        variant=first.variant,
        concurrency=first.concurrency,
        runs=len(pairs),
        slow=len(every) - len(pairs),
        worker_us_per_request=added("worker_us_per_request"),
        tree_us_per_request=added("tree_us_per_request"),
        worker_us_per_token=added("worker_us_per_token"),
        tree_us_per_token=added("tree_us_per_token"),
        batches_per_request=median_or_none([cell.batches_per_request for cell in variant]),
    )


def combine(cells: Sequence[Cell]) -> Cell:
    """Combine repeats of one cell: counts are summed, the peak is the highest, everything else the median."""
    first = cells[0]
    values: dict[str, object] = {"mode": first.mode, "variant": first.variant, "concurrency": first.concurrency}
    values["requests"] = sum(cell.requests for cell in cells)
    values["errors"] = dict(sum((Counter(cell.errors) for cell in cells), Counter[str]()))
    values["statuses"] = dict(sum((Counter(cell.statuses) for cell in cells), Counter[int]()))
    values["worker_peak_mb"] = max(cell.worker_peak_mb for cell in cells)
    for name in Cell.__struct_fields__:
        if name.endswith("_ms"):
            values[name] = median_percentiles([getattr(cell, name) for cell in cells])
        elif name not in values:
            values[name] = median_or_none([getattr(cell, name) for cell in cells])
    return msgspec.convert(values, Cell)


def _measure(
    stack: Stack, name: str, variant: Variant, concurrency: int, bodies: list[bytes], wanted: int, track: Track
) -> Cell:
    mode = MODES[name]
    spec = LoadSpec(
        bodies=bodies,
        concurrency=concurrency,
        requests=wanted,
        warmup=min(wanted, concurrency if mode.ramp_seconds else max(concurrency, 200)),
        ramp_seconds=mode.ramp_seconds if concurrency > 1 else 0.0,
    )
    label = f"{load_name(name, variant)} at {concurrency}"
    track.at(label)
    before, loop = stack.script_calls(), loop_us(stack.gateway_core)
    result = stack.load(spec, lambda ended: track.at(label, ended / wanted), variant=variant)
    loop = max(loop, loop_us(stack.gateway_core))
    served = result.requests - result.error_count
    if variant in ("filtered", *PARSED) and result.output_tokens != served * mode.output_tokens:
        found = f"{served} answers had {result.output_tokens} tokens"
        raise BenchError(f"{label}: {found} together, and not {mode.output_tokens} each")
    batches = (stack.script_calls() - before) / (spec.requests + spec.warmup)
    memory = memory_mb(stack.worker_pid)
    return cell_of(name, concurrency, result, stack, memory, loop, variant=variant, batches=batches)


def cell_of(
    name: str,
    concurrency: int,
    result: LoadResult,
    stack: Stack,
    memory: tuple[float, float],
    loop: float,
    *,
    variant: Variant = "plain",
    batches: float = 0.0,
) -> Cell:
    """Convert a load's result to figures per request and token; `batches` are the store's script calls per request."""
    mode = MODES[name]
    worker = result.cpu_seconds[stack.worker_pid]
    replica = stack.replica_cpu_seconds(result)
    tree = sum(result.cpu_seconds.values()) - replica
    tokens = result.streamed_tokens if mode.stream else None
    served = result.requests - result.error_count

    def per(seconds: float, count: float | None) -> float | None:
        return round(seconds * 1e6 / count, 2) if count else None

    def added(steps: int) -> Percentiles | None:
        return percentiles([max(0.0, value - steps * mode.step_ms) for value in result.ttft_ms])

    return Cell(
        mode=name,
        variant=variant,
        concurrency=concurrency,
        requests=result.requests,
        errors=result.errors,
        statuses=result.statuses,
        seconds=round(result.seconds, 3),
        requests_per_s=round(served / result.seconds, 1),
        tokens_per_s=None if tokens is None else round(tokens / result.seconds, 1),
        worker_us_per_request=None if mode.stream else per(worker, served),
        tree_us_per_request=None if mode.stream else per(tree, served),
        worker_us_per_token=per(worker, tokens),
        tree_us_per_token=per(tree, tokens),
        batches_per_request=round(batches, 4),
        worker_busy=round(worker / result.seconds, 3),
        load_busy=round((replica + result.client_cpu_seconds) / result.seconds, 3),
        others_busy=stack.others_busy(result),
        core_loop_us=round(loop, 1),
        worker_mb=round(memory[0], 1),
        worker_peak_mb=round(memory[1], 1),
        ttft_ms=percentiles(result.ttft_ms) if mode.stream else None,
        added_ttft_most_ms=added(1) if mode.step_ms else None,
        added_ttft_least_ms=added(2) if mode.step_ms else None,
        itl_ms=percentiles(result.gap_ms),
        e2e_ms=percentiles(result.e2e_ms),
    )
