"""Measures long prompts: CPU for each, and how late the worker's event loop is meanwhile.

Prompts of one load share their first tokens, as requests with one system prompt or document do, or are the turns of
conversations that grow. Nothing else repeats: a number that no other request has stands every few hundred characters.
"""

import json
import random
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from loadtest.load.client import LoadResult, LoadSpec
from loadtest.load.loop_probe import LoopProbe
from loadtest.load.processes import memory_mb
from loadtest.load.stack import MODEL, BenchPool, Stack, chat_body, gateway_stack, random_prompt
from loadtest.load.track import Track
from loadtest.reports.statistics import Percentiles, percentiles

PROMPT_TOKENS: Final = 100_000
SHARED_TOKENS: Final = (4_000, 90_000)
#: Of the open load.
RATE: Final = 150.0
BODY_BYTES: Final = 220_000
_WORKERS: Final = 2
_CONNECTIONS: Final = 256
#: About, for the words of `random_prompt`, and for those of a text with numbers in it.
_TOKENS_PER_WORD: Final = 1.06
_TOKENS_PER_UNIQUE_WORD: Final = 1.22
_BYTES_PER_WORD: Final = 5.55
_ANSWER_TOKENS: Final = 8
_BODIES: Final = 8
_STAMP: Final = "(unique)"
_WORDS_PER_STAMP: Final = 60
_CLIENTS: Final = 4
_TURN_TOKENS: Final = 1_000
_TURNS: Final = 20
_PROBE_ALONE_SECONDS: Final = 3.0


class LongPrompts(msgspec.Struct, frozen=True, kw_only=True):
    """One load's measurements; times in ms, memory in MB (10^6 bytes).

    `prompt_tokens` are those of the first prompt. `cpu_ms` is the CPU of all workers for a request. `probe_ms` are
    round trips of a probe of the event loop during the load, `probe_alone_ms` on the same gateway without a load.
    `workers_busy` is in cores. `most_open` is the largest number of requests under way.
    """

    load: str
    prompt_tokens: int
    body_bytes: int
    requests: int
    errors: dict[str, int]
    requests_per_s: float
    cpu_ms: float
    workers_busy: float
    worker_mb: float
    probe_ms: Percentiles | None
    probe_alone_ms: Percentiles | None
    e2e_ms: Percentiles | None
    most_open: int
    others_busy: float


def long_prompts(
    prompt_tokens: int = PROMPT_TOKENS,
    shared_tokens: Sequence[int] = SHARED_TOKENS,
    *,
    requests: int = 200,
    rate: float = RATE,
    open_requests: int = 1_500,
    show: Callable[[str, float, int], None] | None = None,
) -> list[LongPrompts]:
    """Measure each shared prefix and growing conversations with one worker, then an open load on two.

    `requests` are those of each load but the open one. Raises BenchError.
    """
    track = Track(len(shared_tokens) + (6 if rate else 4), show)
    rng = random.Random(1)
    words = int(BODY_BYTES / _BYTES_PER_WORD)
    large = {
        "new": _sharing(rng, 0, words),
        "nine tenths shared": _sharing(rng, words * 9 // 10, words // 10),
    }
    found: list[LongPrompts] = []
    track.at("starting a gateway")
    engine = ["--instant", "--output-tokens", str(_ANSWER_TOKENS)]
    context = max(2 * prompt_tokens, BODY_BYTES)
    with gateway_stack(engine, pools=[BenchPool("bench", tp=2)], context=context) as stack:
        alone = _probed_alone(stack)
        for shared in shared_tokens:
            bodies = _sharing(rng, _words(shared), int((prompt_tokens - shared) / _TOKENS_PER_UNIQUE_WORD))
            found.append(_measured(stack, _closed(bodies, requests), f"{shared:,} shared", alone, track))
        spec = _conversations(rng, prompt_tokens, requests)
        found.append(_measured(stack, spec, "conversations", alone, track))
        # The same prompts again: what remains when nothing is new.
        found.append(_measured(stack, spec, "conversations again", alone, track))
        # What one worker can hold of the open load's prompts.
        for name, bodies in large.items():
            found.append(_measured(stack, _closed(bodies, requests), f"220 KB, {name}", alone, track))
    if not rate:
        return found
    with gateway_stack(engine, pools=[BenchPool("bench", tp=2)], context=context, workers=_WORKERS) as stack:
        alone = _probed_alone(stack)
        for name, bodies in large.items():
            spec = LoadSpec(
                bodies=bodies,
                stamp=_STAMP,
                concurrency=_CONNECTIONS,
                rate=rate,
                requests=open_requests,
                warmup=int(rate),
            )
            found.append(_measured(stack, spec, f"{rate:g}/s, {name}", alone, track))
    return found


def _closed(bodies: list[bytes], requests: int) -> LoadSpec:
    return LoadSpec(bodies=bodies, stamp=_STAMP, concurrency=_CLIENTS, requests=requests, warmup=2 * _BODIES)


def _words(tokens: int) -> int:
    return int(tokens / _TOKENS_PER_WORD)


def _text(rng: random.Random, words: int) -> str:
    """Make a text that no other request has."""
    parts = [random_prompt(rng, min(_WORDS_PER_STAMP, words - done)) for done in range(0, words, _WORDS_PER_STAMP)]
    return "".join(f"{_STAMP} {part} " for part in parts)


def _sharing(rng: random.Random, shared: int, unique: int) -> list[bytes]:
    """Make bodies whose prompts have their first `shared` words in common and then as many as `unique` of their own."""
    prefix = random_prompt(rng, shared)
    return [
        chat_body(f"{prefix} {_text(rng, unique)}", stream=False, max_tokens=_ANSWER_TOKENS) for _ in range(_BODIES)
    ]


def _conversations(rng: random.Random, most_tokens: int, requests: int) -> LoadSpec:
    """Make conversations that grow by a question and an answer with each request, up to `most_tokens`."""
    conversations = max(_CLIENTS, requests // _TURNS)
    turns = max(2, 1 + -(-requests // conversations))
    half = _words(min(_TURN_TOKENS, most_tokens // (2 * turns))) // 2
    chats = [
        [{"role": "user", "content": random_prompt(rng, _words(most_tokens) - (turns - 1) * 2 * half)}]
        for _ in range(conversations)
    ]
    bodies = []
    for _ in range(turns):
        for chat in chats:
            bodies.append(
                msgspec.json.encode({"model": MODEL, "messages": chat, "max_tokens": _ANSWER_TOKENS, "stream": False})
            )
            chat.append({"role": "assistant", "content": random_prompt(rng, half)})
            chat.append({"role": "user", "content": random_prompt(rng, half)})
    # The first turn of each is the warm-up.
    return LoadSpec(bodies=bodies, concurrency=_CLIENTS, requests=len(bodies) - conversations, warmup=conversations)


def _probed_alone(stack: Stack) -> Percentiles | None:
    with LoopProbe(stack.port) as probe:
        probe.join(_PROBE_ALONE_SECONDS)
    return percentiles(probe.ms)


def _measured(stack: Stack, spec: LoadSpec, name: str, alone: Percentiles | None, track: Track) -> LongPrompts:
    track.at(name)
    stamp = spec.stamp.encode()
    first = spec.bodies[0].replace(stamp, b"0" * len(stamp)) if stamp else spec.bodies[0]
    asked = json.loads(stack.ask(first, "plain"))
    with LoopProbe(stack.port) as probe:
        result = stack.load(spec, lambda ended: track.at(name, ended / spec.requests))
    track.part_done()
    cpu = sum(result.cpu_seconds[pid] for pid in stack.worker_pids)
    return LongPrompts(
        load=name,
        prompt_tokens=asked["usage"]["prompt_tokens"],
        body_bytes=len(first),
        requests=result.requests,
        errors=result.errors,
        requests_per_s=round(result.requests / result.seconds, 2),
        cpu_ms=round(cpu * 1e3 / max(1, result.requests - result.error_count), 2),
        workers_busy=round(cpu / result.seconds, 3),
        worker_mb=round(sum(memory_mb(pid)[0] for pid in stack.worker_pids), 1),
        probe_ms=percentiles(probe.ms),
        probe_alone_ms=alone,
        e2e_ms=percentiles(result.e2e_ms),
        most_open=result.most_open,
        others_busy=_others(stack, result),
    )


def _others(stack: Stack, result: LoadResult) -> float:
    """Return the share of the cores that other processes used; of all cores where several workers share them."""
    if len(stack.worker_pids) == 1:
        return stack.others_busy(result)
    ours = sum(result.cpu_seconds.values()) + result.client_cpu_seconds
    return round(max(0.0, sum(result.core_seconds.values()) - ours) / result.seconds, 3)
