"""Measures a batch beside interactive clients: its share of the free throughput, and its cost in their TTFT.

Engines step at a fixed pace, so that a first token waits only for a slot and the gateway. Each repeat measures in turn
the client alone, the batch alone, and both together, all on one gateway.
"""

import contextlib
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, Final

import msgspec

from loadtest.load.client import LoadResult, LoadSpec
from loadtest.load.client_beside import first_tokens, tracked_load
from loadtest.load.processes import BenchError
from loadtest.load.stack import MODEL, BenchPool, Stack, chat_body, gateway_stack, random_prompt
from loadtest.load.track import Track
from loadtest.reports.statistics import Percentiles, median_percentiles, slope

SLOTS: Final = 32
REPLICAS: Final = 4
PACE_MS: Final = 50.0
_LINE_TOKENS: Final = 80
_CHAT_TOKENS: Final = 20
_WORDS: Final = 30
#: Seconds for which a batch runs before it is measured: then as many requests end as begin.
_SETTLE_SECONDS: Final = 8.0
_SAMPLE_SECONDS: Final = 0.25
_BOUNDARY: Final = "penstock-bench"


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Rates in tokens per second; `free` is the batch's rate alone less the client's rate beside it.

    `alone_ms` and `beside_ms` are the client's TTFT; `ratio` is that of their p99, `share` that of the batch's rate to
    `free`: medians over runs.
    """

    clients: int
    slots: int
    runs: int
    errors: int
    alone_ms: Percentiles
    beside_ms: Percentiles
    ratio: float
    batch_alone: float
    batch_beside: float
    client_beside: float
    free: float
    share: float


def drain(clients: int, *, requests: int, repeat: int, show: Callable[[str, float, int], None] | None = None) -> Drain:
    """Run the benchmark. Raises BenchError."""
    rng = random.Random(1)
    chats = [chat_body(random_prompt(rng, _WORDS), stream=True, max_tokens=_CHAT_TOKENS) for _ in range(requests)]
    spec = LoadSpec(bodies=chats, concurrency=clients, requests=requests, warmup=4 * clients, ramp_seconds=1.0)
    track = Track(3 * repeat, show)
    track.at("starting a gateway")
    engine = ["--pace-ms", str(PACE_MS), "--slots", str(SLOTS), "--output-tokens", str(_LINE_TOKENS)]
    pool = BenchPool("bench", tp=2, replicas=REPLICAS)
    alone: list[LoadResult] = []
    beside: list[LoadResult] = []
    rates: list[float] = []
    rates_beside: list[float] = []
    with gateway_stack(engine, pools=[pool]) as stack:
        batches = _Batches(stack, rng)
        for _ in range(repeat):
            alone.append(tracked_load(stack, spec, "the client alone", track))
            with batches.running() as rate:
                track.at("the batch alone")
                time.sleep(2.0 * _SETTLE_SECONDS)
                rates.append(rate())
                track.part_done()
            with batches.running() as rate:
                beside.append(tracked_load(stack, spec, "both", track))
                rates_beside.append(rate())
    firsts, seconds = [first_tokens(each) for each in alone], [first_tokens(each) for each in beside]
    whole = median_percentiles(firsts), median_percentiles(seconds)
    assert whole[0] is not None
    assert whole[1] is not None
    got = [each.streamed_tokens / each.seconds for each in beside]
    free = [before - used for before, used in zip(rates, got, strict=True)]
    return Drain(
        clients=clients,
        slots=SLOTS * REPLICAS,
        runs=repeat,
        errors=sum(each.error_count for each in (*alone, *beside)),
        alone_ms=whole[0],
        beside_ms=whole[1],
        ratio=round(median(b.p99 / a.p99 for a, b in zip(firsts, seconds, strict=True)), 3),
        batch_alone=round(median(rates), 1),
        batch_beside=round(median(rates_beside), 1),
        client_beside=round(median(got), 1),
        free=round(median(free), 1),
        share=round(median(rate / room for rate, room in zip(rates_beside, free, strict=True)), 3),
    )


class _Batches:
    """Makes batches that do not end by themselves while they are measured."""

    def __init__(self, stack: Stack, rng: random.Random) -> None:
        self._stack = stack
        request = {"model": MODEL, "max_tokens": _LINE_TOKENS}
        self._lines = b"".join(
            msgspec.json.encode(
                {
                    "custom_id": str(number),
                    "method": "POST",
                    "url": "/v1/chat/completions",
                    "body": {**request, "messages": [{"role": "user", "content": random_prompt(rng, _WORDS)}]},
                }
            )
            + b"\n"
            for number in range(20_000)
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[Callable[[], float]]:
        """Run a batch in the block; yield, once it has settled, a function for its tokens per second so far."""
        batch_id = self._begin()
        over = threading.Event()
        samples: list[tuple[float, float]] = []

        def sample() -> None:
            begun = time.monotonic()
            while not over.wait(_SAMPLE_SECONDS):
                counts = self._ask("GET", f"/v1/batches/{batch_id}")["request_counts"]
                if counts["completed"] and time.monotonic() - begun >= _SETTLE_SECONDS / 2.0:
                    samples.append((time.monotonic(), float(counts["completed"])))

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            yield lambda: slope(samples) * _LINE_TOKENS
        finally:
            over.set()
            sampler.join()
            self._ask("POST", f"/v1/batches/{batch_id}/cancel")
            self._await(batch_id, "cancelled")

    def _begin(self) -> str:
        parts = (b'name="purpose"\r\n\r\nbatch', b'name="file"; filename="in.jsonl"\r\n\r\n' + self._lines)
        mark = _BOUNDARY.encode()
        form = b"".join(b"--%b\r\nContent-Disposition: form-data; %b\r\n" % (mark, part) for part in parts)
        file_id = self._ask(
            "POST", "/v1/files", form + b"--%b--\r\n" % mark, f"multipart/form-data; boundary={_BOUNDARY}"
        )
        body = {"input_file_id": file_id["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        batch_id = str(self._ask("POST", "/v1/batches", json.dumps(body).encode())["id"])
        self._await(batch_id, "in_progress")
        return batch_id

    def _await(self, batch_id: str, status: str) -> None:
        deadline = time.monotonic() + 30.0
        while (batch := self._ask("GET", f"/v1/batches/{batch_id}"))["status"] != status:
            if time.monotonic() > deadline:
                raise BenchError(f"the batch is not {status} after 30 s: it is {batch['status']}")
            time.sleep(0.1)

    def _ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self._stack.keys['plain']}", "content-type": kind}
        url = f"http://127.0.0.1:{self._stack.port}{path}"
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, body, headers, method=method), timeout=30
            ) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError as error:
            raise BenchError(f"{method} {path} failed: {error}") from None
