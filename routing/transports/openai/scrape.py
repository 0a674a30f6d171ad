"""Pure: reads an engine's load from its own metrics."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from protos.types import Load
from routing.transports.prometheus import Sample
from routing.transports.triton.triton_metrics import engine_state


@dataclass(frozen=True, slots=True)
class Scrape:
    """A scraped load. `block_tokens` 0: the KV cache's size is unknown and absent from the load."""

    load: Load
    block_tokens: int = 0


class _Sums:
    """Samples grouped by name: engines write one per rank or model."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._values: dict[str, list[float]] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        for name, labels, value in samples:
            if 0.0 <= value < 1e15:
                self._values.setdefault(name, []).append(value)
                self._labels.setdefault(name, labels)

    def total(self, *names: str) -> float | None:
        """Aggregate the samples of the first of `names` that is present."""
        return next((sum(self._values[name]) for name in names if name in self._values), None)

    def mean(self, *names: str) -> float | None:
        """Aggregate the samples of the first of `names` that is present."""
        return next((sum(self._values[name]) / len(self._values[name]) for name in names if name in self._values), None)

    def label(self, name: str, label: str) -> int:
        """Return an integer that is written as a label; 0: there is none."""
        text = self._labels.get(name, {}).get(label, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _vllm(sums: _Sums) -> Scrape | None:
    running = sums.total("vllm:num_requests_running")
    if running is None:
        return None
    blocks = sums.label("vllm:cache_config_info", "num_gpu_blocks")
    used = sums.mean("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
    block_tokens = sums.label("vllm:cache_config_info", "block_size")
    return _scrape(running, sums.total("vllm:num_requests_waiting"), used, blocks, block_tokens)


def _sglang(sums: _Sums) -> Scrape | None:
    running = sums.total("sglang:num_running_reqs")
    if running is None:
        return None
    tokens = int(sums.total("sglang:max_total_num_tokens") or 0)
    waiting = sums.total("sglang:num_queue_reqs")
    return _scrape(running, waiting, sums.mean("sglang:token_usage"), tokens, 1)


def _trtllm(sums: _Sums) -> Scrape | None:
    running = sums.total("trtllm_num_requests_running")
    if running is None:
        return None
    blocks = int(sums.total("trtllm_kv_cache_max_blocks") or 0)
    block_tokens = int(sums.mean("trtllm_kv_cache_tokens_per_block") or 0)
    used = sums.mean("trtllm_kv_cache_utilization")
    return _scrape(running, sums.total("trtllm_num_requests_waiting"), used, blocks, block_tokens)


def _scrape(running: float, waiting: float | None, used: float | None, blocks: int, block_tokens: int) -> Scrape:
    """`used` is the share of blocks in use, 0 to 1, even where the metric's name says percent."""
    known = used is not None and blocks > 0 and block_tokens > 0
    used_blocks = round(min(used or 0.0, 1.0) * blocks) if known else 0
    load = Load(
        running=int(running),
        waiting=int(waiting or 0),
        kv_blocks_used=used_blocks,
        kv_blocks_total=blocks if known else 0,
        tokens_in_flight=used_blocks * block_tokens,
        workers=1,
    )
    return Scrape(load, block_tokens if known else 0)


#: Metric names are from each engine's documentation.
KINDS: Final[dict[str, Callable[[_Sums], Scrape | None]]] = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}


def scraped(samples: Iterable[Sample], kind: str) -> Scrape | None:
    """Read the load from samples of an engine of `kind` (`auto`: of any). None: they are not that engine's."""
    samples = list(samples)
    if kind == "triton":
        return _triton(samples)
    sums = _Sums(samples)
    if kind != "auto":
        return KINDS[kind](sums)
    return next((found for read in KINDS.values() if (found := read(sums)) is not None), None) or _triton(samples)


def _triton(samples: Iterable[Sample]) -> Scrape | None:
    state = engine_state(samples, "")
    return None if state is None else Scrape(msgspec.structs.replace(state.load, workers=1), state.block_tokens)
