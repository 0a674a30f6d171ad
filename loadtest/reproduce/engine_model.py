"""Compares the engine model with published figures and generates docs/engine-model.md.

All figures come from the scheduler and step function of the simulated engine, not from a separate formula.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from math import exp
from statistics import fmean

from loadtest.reproduce.published import NIM, SATURATED, STATIC, TENSOR_PARALLEL, WORKLOADS, Latency, Workload
from protos.types import Shape
from replicas.engine_limits import Limits
from replicas.model import ReplicaModel
from replicas.profiles import H100, PROFILES
from replicas.sequence import Sequence
from replicas.timing import FITTED, RooflineTimer, kv_blocks

CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SCALELLM_MODEL = "mixtral-8x7b"
SCALELLM_BATCH = 64
SCALELLM_MAX_OUTPUT = 512


@dataclass(frozen=True, slots=True)
class Fleet:
    """Equal replicas of one shape."""

    name: str
    shape: Shape
    replicas: int = 1


FIGURE_8 = (Fleet("1x TP8", Shape(tp=8)), Fleet("2x TP4", Shape(tp=4), 2), Fleet("4x TP2", Shape(tp=2), 4))
FIGURE_9 = (
    Fleet("TP8", Shape(tp=8)),
    Fleet("EP2-TP4", Shape(tp=8, ep=2)),
    Fleet("EP4-TP2", Shape(tp=8, ep=4)),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A published saturated throughput and the model's, in output tokens/s."""

    workload: Workload
    tp: int
    published: float
    predicted: float

    @property
    def error(self) -> float:
        """Relative error, positive when the model is too fast."""
        return self.predicted / self.published - 1


@dataclass(frozen=True, slots=True)
class LoopResult:
    """Results of a closed loop: output tokens/s, and mean seconds to the first token and between tokens."""

    throughput: float
    ttft: float
    itl: float


def replica(model: str, shape: Shape, max_batch_size: int = 2048) -> ReplicaModel[Sequence]:
    """Make a model replica on H100s with the fitted coefficients."""
    profile = PROFILES[model]
    limits = Limits(kv_blocks(profile, shape), max_batch_size=max_batch_size)
    return ReplicaModel(limits, RooflineTimer(profile, shape))


def saturated(model: str, shape: Shape, workload: Workload) -> float:
    """Return output tokens/s as in the published runs: all requests are queued at once, until the last one's end."""
    engine = replica(model, shape)
    for _ in range(workload.requests):
        engine.submit([Sequence(workload.prompt, workload.output, workload.output)], 0.0)
    now = 0.0
    while (seconds := engine.begin(now)) is not None:
        now += seconds
        engine.end(now)
    return workload.requests * workload.output / now


def saturation(model: str) -> list[Comparison]:
    """Compare every published saturated figure of a model with the predicted one."""
    return [
        Comparison(workload, tp, published, saturated(model, Shape(tp=tp), workload))
        for workload, row in zip(WORKLOADS, SATURATED[model], strict=True)
        for tp, published in zip(TENSOR_PARALLEL, row, strict=False)
    ]


def mean_absolute_error(comparisons: list[Comparison]) -> float:
    """Return the mean of the errors' magnitudes, as a fraction."""
    return fmean(abs(c.error) for c in comparisons)


class ClosedLoop:
    """`concurrency` clients in front of replicas, each sending its next request when the last one ended."""

    def __init__(
        self, engines: list[ReplicaModel[Sequence]], draw: Callable[[], Sequence], route: random.Random
    ) -> None:
        self._engines, self._draw, self._route = engines, draw, route
        self._pending: list[tuple[float, int]] = []  # (end of the current step, engine)
        self._stepping = [False] * len(engines)
        self._ended: list[Sequence] = []

    def run(self, concurrency: int, requests: int, warm_up: int = 0) -> LoopResult:
        """Send `requests` requests and wait for the last. The first `warm_up` to end are left out of the means."""
        for _ in range(concurrency):
            self._send(0.0)
        left = requests - concurrency
        now = 0.0
        while self._pending:
            now, k = heapq.heappop(self._pending)
            ended = self._engines[k].end(now)
            self._ended += ended
            for _ in ended[: max(0, left)]:
                self._send(now)
            left -= len(ended)
            self._step(k, now)
        counted = [(s, s.first_token) for s in self._ended[warm_up:] if s.first_token is not None]
        waits = [first - s.arrived for s, first in counted]
        gaps = [(s.ended - first) / (s.steps - 1) for s, first in counted if s.steps > 1]
        return LoopResult(sum(s.steps for s in self._ended) / now, fmean(waits), fmean(gaps) if gaps else 0.0)

    def _send(self, now: float) -> None:
        k = self._route.randrange(len(self._engines))
        self._engines[k].submit([self._draw()], now)
        if not self._stepping[k]:
            self._step(k, now)

    def _step(self, k: int, now: float) -> None:
        seconds = self._engines[k].begin(now)
        self._stepping[k] = seconds is not None
        if seconds is not None:
            heapq.heappush(self._pending, (now + seconds, k))


def conversation(rng: random.Random) -> Sequence:
    """Draw lengths like OpenOrca's, as ScaleLLM describes them: log-normal, the answer cut at 512 tokens."""
    prompt = max(16, round(250 * exp(0.7 * rng.gauss(0, 1))))
    output = min(SCALELLM_MAX_OUTPUT, max(1, round(180 * exp(0.8 * rng.gauss(0, 1)))))
    return Sequence(prompt, output, SCALELLM_MAX_OUTPUT)


def sweep(fleets: tuple[Fleet, ...]) -> dict[int, dict[str, float]]:
    """Return output tokens/s by concurrency and fleet in ScaleLLM's setting: 20 requests per client (at least 400)."""
    table: dict[int, dict[str, float]] = {}
    for concurrency in CONCURRENCIES:
        table[concurrency] = {}
        for fleet in fleets:
            engines = [replica(SCALELLM_MODEL, fleet.shape, SCALELLM_BATCH) for _ in range(fleet.replicas)]
            loop = ClosedLoop(engines, partial(conversation, random.Random(1)), random.Random(2))
            table[concurrency][fleet.name] = loop.run(concurrency, max(400, 20 * concurrency)).throughput
    return table


def orderings(figure_8: dict[int, dict[str, float]], figure_9: dict[int, dict[str, float]]) -> dict[str, bool]:
    """Return ScaleLLM's statements on its Figures 8 and 9, and whether the model agrees."""
    low, high = [c for c in CONCURRENCIES if c <= 16], [c for c in CONCURRENCIES if c > 128]

    def faster(table: dict[int, dict[str, float]], first: str, second: str, where: list[int], by: float = 1.0) -> bool:
        return all(table[c][first] > by * table[c][second] for c in where)

    return {
        "Figure 8: at low concurrency (to 16) TP8 beats 2x TP4 and 4x TP2": faster(figure_8, "1x TP8", "2x TP4", low)
        and faster(figure_8, "1x TP8", "4x TP2", low),
        "Figure 8: past 128, 4x TP2 is clearly best (by a fifth or more)": faster(
            figure_8, "4x TP2", "2x TP4", high, 1.2
        )
        and faster(figure_8, "4x TP2", "1x TP8", high, 1.2),
        "Figure 8: past 128, 2x TP4 beats 1x TP8": faster(figure_8, "2x TP4", "1x TP8", high),
        "Figure 9: EP2-TP4 beats TP8 and EP4-TP2 throughout": faster(figure_9, "EP2-TP4", "TP8", list(CONCURRENCIES))
        and faster(figure_9, "EP2-TP4", "EP4-TP2", list(CONCURRENCIES)),
        "Figure 9: EP2-TP4's lead over TP8 is larger past 128 than at low concurrency": min(
            figure_9[c]["EP2-TP4"] / figure_9[c]["TP8"] for c in high
        )
        > max(figure_9[c]["EP2-TP4"] / figure_9[c]["TP8"] for c in low if c < 8),
        "Figure 9: TP8 beats EP4-TP2 at low concurrency (to 8)": faster(
            figure_9, "TP8", "EP4-TP2", [c for c in low if c <= 8]
        ),
        "Figure 9: EP4-TP2 beats TP8 beyond 16": faster(
            figure_9, "EP4-TP2", "TP8", [c for c in CONCURRENCIES if c > 16]
        ),
    }


def latency(point: Latency) -> LoopResult:
    """Run the model at a published operating point: a static batch (all wait for the last prompt) or a closed loop."""
    engine = replica(point.model, Shape(tp=point.tp))
    if point.source != "static":
        # The first answers have staggered lengths, since clients that start together would stay in step.
        first = (point.output * (k + 1) // point.concurrency for k in range(point.concurrency))

        def draw() -> Sequence:
            return Sequence(point.prompt, next(first, point.output), point.output)

        loop = ClosedLoop([engine], draw, random.Random(0))
        return loop.run(point.concurrency, 5 * point.concurrency, warm_up=2 * point.concurrency)
    batch = [Sequence(point.prompt, point.output, point.output) for _ in range(point.concurrency)]
    for sequence in batch:
        engine.submit([sequence], 0.0)
    now = 0.0
    while (seconds := engine.begin(now)) is not None:
        now += seconds
        engine.end(now)
    prefilled = max(s.first_token or 0.0 for s in batch)
    return LoopResult(point.concurrency * point.output / now, prefilled, (now - prefilled) / (point.output - 1))


def markdown() -> str:
    """Generate docs/engine-model.md. Takes some 15 s on one core."""
    figure_8, figure_9 = sweep(FIGURE_8), sweep(FIGURE_9)
    claims = [[claim, "yes" if holds else "**no**"] for claim, holds in orderings(figure_8, figure_9).items()]
    parts = [
        INTRODUCTION,
        *(_saturation_section(model) for model in SATURATED),
        SCALELLM,
        "### Figure 8: replicas of one shape on eight GPUs\n",
        _sweep_table(figure_8),
        "### Figure 9: one replica on eight GPUs, experts split three ways\n",
        _sweep_table(figure_9),
        "### What the paper says of them, and whether the model agrees\n",
        _table(["claim", "holds"], claims),
        LATENCY,
        _latency_table(),
        COEFFICIENTS,
        _table(
            ["coefficient", "value", "unit", "meaning"],
            [
                [f"`{c.name}`", f"{getattr(FITTED, c.name):g}", c.metadata["unit"], c.metadata["means"]]
                for c in fields(FITTED)
            ],
        ),
        LIMITS,
    ]
    return "\n".join(parts)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _saturation_section(model: str) -> str:
    comparisons = saturation(model)
    rows = []
    for workload in WORKLOADS:
        row = [f"{workload.prompt}/{workload.output}"]
        row += [
            f"{c.predicted:.0f} / {c.published:.0f} ({c.error:+.1%})" for c in comparisons if c.workload is workload
        ]
        rows.append(row)
    head = ["prompt/answer", *(f"TP{tp}" for tp in TENSOR_PARALLEL[: len(rows[0]) - 1])]
    worst = max(comparisons, key=lambda c: abs(c.error))
    return (
        f"### {model}\n\n{_table(head, rows)}\n"
        f"Mean absolute error: **{mean_absolute_error(comparisons):.1%}** over {len(comparisons)} figures; worst is "
        f"{worst.workload.prompt}/{worst.workload.output} on TP{worst.tp} with {worst.error:+.1%}.\n"
    )


def _sweep_table(table: dict[int, dict[str, float]]) -> str:
    names = list(table[CONCURRENCIES[0]])
    rows = []
    for concurrency, row in table.items():
        best = max(row.values())
        rows.append([str(concurrency), *(f"**{row[n]:.0f}**" if row[n] == best else f"{row[n]:.0f}" for n in names)])
    return _table(["concurrency", *names], rows)


def _latency_table() -> str:
    rows = []
    for point in NIM + STATIC:
        result = latency(point)
        rows.append(
            [
                point.source,
                f"{point.model} TP{point.tp}",
                f"{point.prompt}/{point.output}",
                str(point.concurrency),
                f"{result.ttft * 1e3:.0f} / {point.ttft_ms:g}",
                f"{result.itl * 1e3:.1f} / {point.itl_ms:g}",
            ]
        )
    return _table(["source", "model", "prompt/answer", "concurrency", "TTFT ms", "ITL ms"], rows)


INTRODUCTION = """# The engine model

A simulated replica and the fleet simulator share one model of an engine: `replicas/kv_cache.py` keeps the paged KV
cache, `replicas/model.py` batches continuously over it, and `replicas/timing.py` says how long a step takes. This
page holds that model against published measurements of TensorRT-LLM. It is written by
`penstock bench engine-model --markdown`, which runs the scheduler and the step function themselves, not a formula
beside them. Nothing here was measured on a GPU by us.

A step takes

- a fixed time, and a little for each sampled token;
- the time to read weights from memory and to multiply them, joined by a norm: whichever is slower dominates. Of a
  mixture of experts only the experts that the batch's tokens choose are read (an expectation over independent and
  even choices), under expert parallelism as many as the busiest group holds;
- the time to read the KV of all decoding sequences, and prompt attention, which grows with the square of the prompt;
- two all-reduces a layer with more than one GPU: a latency and the bytes of a ring.

The number of KV blocks is what weights and a workspace leave of a GPU's memory. The scheduler is
GUARANTEED_NO_EVICT with chunked prefill, at most 2048 sequences and 8192 tokens a step.

## Saturated throughput

Output tokens/s, model / published (error). Like the published runs, all requests are queued at once and the clock
stops with the last, so that filling and draining count; prompts share nothing. The coefficients were fitted to these
very figures: the errors say how well one set of coefficients describes them all, not how well it foretells others.
"""

SCALELLM = f"""## ScaleLLM's Figures 8 and 9

Output tokens/s of {SCALELLM_MODEL} on eight GPUs by the number of concurrent clients, at most {SCALELLM_BATCH}
sequences a batch (the figures' caption) and {SCALELLM_MAX_OUTPUT} output tokens. The paper shows no numbers in text
and does not give lengths or its router: here prompts are log-normal with median 250, answers with median 180, and each
request goes to a replica at random. Bold is the best of a row.
"""

LATENCY = """## Latency

Model / published means. NIM rows are closed loops; those with more than one client had no part in the fit. Static rows
are one batch that starts together, whose first token waits for the last prompt; they come from an older release, and
their times between tokens had a small part in the fit. No time to first token was fitted.
"""

COEFFICIENTS = f"""## Coefficients

Fitted by random search to the saturated figures above (Mixtral weighs most) and loosely to the latency rows, within
bounds that are physically possible. Sizes of the models come from their published configurations, peaks from the data
sheet of {H100.name}. `transfer_rate` and `free_memory_fraction` are not fitted. `split_seconds`, `group_seconds` and
`expert_skew` are chosen, together, so that the orderings of Figure 9 hold: no published number determines them.
"""

LIMITS = """## Limits

- Expert parallelism is calibrated to an ordering, not to numbers. Reading weights alone would favour plain TP8 at one
  or two sequences; the paper says that EP2-TP4 wins throughout, and the two coefficients above say so too.
- The paper calls 2x TP4 modestly better than 1x TP8 at high concurrency. With 64 sequences a batch the model makes it
  much better, since two replicas run twice the sequences.
- At one to four clients TP8's lead over 2x TP4, and EP2-TP4's over TP8, is about two percent or less: the order is the
  paper's, the distance is not known. EP2-TP4's lead past 128 is some five percent.
- Saturated runs of the 2048/2048 workload on eight GPUs are too fast by a fifth or more. A possible reason: the
  published engines were built with batch limits tuned to each workload, which are not known.
- The model's clients are spread evenly over time in the NIM rows, so a prompt seldom waits for another, and time to
  first token at 5 to 50 clients comes out shorter than measured.
- Pipeline parallelism, the KV transfer's rate and MAX_UTILIZATION are modelled without a published figure to compare.
- Step times are means: no jitter, no clock throttling, no host hiccups, no speculative decoding, no LoRA.
"""
