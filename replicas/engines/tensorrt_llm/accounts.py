"""Accounts of what the engine holds: counted from submits and outputs, corrected by the library's statistics.

The statistics are late, freeze without submits and are missing before the first request, so they cannot be the base.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protos.types import Load, Work

#: Seconds after which statistics are too old to tell what waits.
FRESH_SECONDS = 2.0


@dataclass(slots=True)
class Holding:
    """One open sequence: its prompt tokens, most further tokens, tokens so far, and whether the prompt is computed.

    `transferred`: its KV cache comes from another replica, so that its prompt is no work.
    """

    prompt: int
    most: int
    transferred: bool = False
    produced: int = 0
    started: bool = False


class Accounts:
    """Running sums over open sequences, so that a step costs nothing per open sequence."""

    def __init__(self, tokens_per_block: int) -> None:
        self.blocks_total = 0
        self._block = tokens_per_block
        self._open = self._started = 0
        self._tokens = self._reserved = 0
        self._prefill = self._pairs = 0
        self._error = 0  # blocks that the library uses beyond the estimate
        self._since = 0  # sequences opened since the last statistics
        self._engine_waiting = 0
        self._heard_at = float("-inf")
        self._work: Work | None = None

    def opened(self, holding: Holding) -> None:
        """Add a sequence that was submitted to the library."""
        self._open += 1
        self._since += 1
        self._reserved += holding.prompt + holding.most
        if not holding.transferred:
            self._prefill += holding.prompt
            self._pairs += _pairs(holding.prompt)

    def advanced(self, holding: Holding, produced: int) -> None:
        """Note that a sequence has `produced` tokens; the first one shows that its prompt is computed."""
        new = produced - holding.produced
        if not holding.started:
            holding.started = True
            self._started += 1
            self._tokens += holding.prompt
            self._computed(holding)
        holding.produced = produced
        self._tokens += new
        self._reserved -= new

    def closed(self, holding: Holding) -> None:
        """Remove a sequence that has ended."""
        self._open -= 1
        self._reserved -= holding.most - holding.produced
        if holding.started:
            self._started -= 1
            self._tokens -= holding.prompt + holding.produced
        else:
            self._computed(holding)
        if not self._open:
            self._error = 0

    def correct(self, statistics: Mapping[str, Any], now: float) -> None:
        """Correct by one step's statistics in the library's JSON; missing values stay as they were."""
        cache = statistics.get("kvCacheStats") or {}
        self.blocks_total = int(cache.get("maxNumBlocks") or 0) or self.blocks_total
        if "usedNumBlocks" in cache and self._open:
            self._error = int(cache["usedNumBlocks"]) - self._estimate()
        batch = statistics.get("inflightBatchingStats") or {}
        active, queued = int(statistics.get("numActiveRequests") or 0), int(statistics.get("numQueuedRequests") or 0)
        self._engine_waiting = queued + max(0, active - int(batch.get("numScheduledRequests") or 0))
        self._since = 0
        self._heard_at = now
        micros = round(float(statistics.get("iterLatencyMS") or 0) * 1000)
        if micros > 0:
            tokens, prompts = int(batch.get("numCtxTokens") or 0), int(batch.get("numContextRequests") or 0)
            self._work = Work(
                micros,
                prefill_tokens=tokens,
                # The distribution of the tokens is unknown: assume new prompts of equal length.
                prefill_pairs=max(1, prompts) * _pairs(tokens // max(1, prompts)),
                sequences=int(batch.get("numGenRequests") or 0),
                context=self._tokens,
            )

    def work(self) -> Work | None:
        """Return the work of the last step, once."""
        work, self._work = self._work, None
        return work

    def load(self, now: float) -> Load:
        """Return the current load."""
        if not self._open:
            return Load(kv_blocks_total=self.blocks_total)
        waiting = self._open - self._started
        if now - self._heard_at <= FRESH_SECONDS:
            waiting = min(self._open, self._engine_waiting + self._since)
        used = max(0, self._estimate() + self._error)
        return Load(
            running=self._open - waiting,
            waiting=waiting,
            kv_blocks_used=min(used, self.blocks_total) if self.blocks_total else used,
            kv_blocks_total=self.blocks_total,
            tokens_in_flight=self._tokens,
            prefill_tokens=self._prefill,
            kv_blocks_reserved=-(-self._reserved // self._block),
            prefill_pairs=self._pairs,
        )

    def _computed(self, holding: Holding) -> None:
        """Note that its prompt needs no more work."""
        self._reserved -= holding.prompt
        if not holding.transferred:
            self._prefill -= holding.prompt
            self._pairs -= _pairs(holding.prompt)

    def _estimate(self) -> int:
        return -(-self._tokens // self._block)


def _pairs(tokens: int) -> int:
    return tokens * (tokens + 1) // 2
