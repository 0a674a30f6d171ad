"""Reads the load of an engine behind Triton from Triton's metrics.

Names and meaning: custom_metrics_reporter.cc and model_instance_state.cc of TensorRT-LLM's Triton backend.
"""

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from protos.types import Load
from routing.transports.http.buffered_exchange import get
from routing.transports.http.connection_pool import ConnectionPool
from routing.transports.http.http1_request import HttpFailure
from routing.transports.http.origin import origin_of
from routing.transports.prometheus import Sample, samples

log = logging.getLogger(__name__)

REQUESTS: Final = "nv_trt_llm_request_metrics"
BLOCKS: Final = "nv_trt_llm_kv_cache_block_metrics"
_LABELS: Final = {REQUESTS: "request_type", BLOCKS: "kv_cache_block_type"}
#: A busy server with many models writes some 100 kB.
_MAX_BYTES: Final = 4 << 20
_TIMEOUT_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class EngineState:
    """An engine's load, most concurrent requests and tokens per KV block; 0 where the metrics lack a value."""

    load: Load
    max_requests: int = 0
    block_tokens: int = 0


def engine_state(metrics: Iterable[Sample], model: str) -> EngineState | None:
    """Return the state of the engine, or None where the metrics have none.

    The figures are labelled with the engine's own model. Where `model` is not that one but wraps it, they are summed
    over all engines on the server.
    """
    found: dict[str, dict[tuple[str, str], float]] = {}
    for name, labels, value in metrics:
        label = _LABELS.get(name)
        # Values that are no counts are ignored.
        if label is None or not math.isfinite(value) or value < 0:
            continue
        of_model = found.setdefault(labels.get("model", ""), {})
        key = (name, labels.get(label, ""))
        of_model[key] = of_model.get(key, 0) + value
    engines = [found[model]] if model in found else list(found.values())
    if not any((REQUESTS, "active") in engine or (REQUESTS, "scheduled") in engine for engine in engines):
        return None

    def total(name: str, kind: str) -> int:
        return int(sum(engine.get((name, kind), 0) for engine in engines))

    waiting = total(REQUESTS, "waiting")
    running = total(REQUESTS, "scheduled") or max(0, total(REQUESTS, "active") - waiting)
    used = total(BLOCKS, "used")
    block_tokens = max(int(engine.get((BLOCKS, "tokens_per"), 0)) for engine in engines)
    load = Load(
        running=running,
        waiting=waiting,
        kv_blocks_used=used,
        kv_blocks_total=total(BLOCKS, "max"),
        tokens_in_flight=used * block_tokens,
    )
    return EngineState(load, total(REQUESTS, "max"), block_tokens)


class TritonMetrics:
    """Scrapes one server's metrics over a kept connection."""

    def __init__(self, url: str, model: str, replica: str) -> None:
        """`replica` names it in the log. Raises ValueError for an invalid URL. Needs a running event loop."""
        self._pool = ConnectionPool(origin_of(url))
        self._url, self._model, self._replica = url, model, replica
        self._problem = ""

    async def look(self) -> EngineState | None:
        """Return the engine's current state, or None where it cannot be read; the reason is logged once."""
        problem, state = "", None
        try:
            status, body = await get(self._pool, self._pool.origin.path or "/", {}, _MAX_BYTES, _TIMEOUT_SECONDS)
            if status != 200:
                problem = f"status {status}"
            else:
                state = engine_state(samples(body.decode(errors="replace")), self._model)
                problem = "" if state is not None else f"no {REQUESTS} in it"
        except HttpFailure as error:
            problem = error.problem
        if problem and not self._problem:
            log.warning("replica %s: its load is counted here; metrics at %s: %s", self._replica, self._url, problem)
        self._problem = problem
        return state

    async def aclose(self) -> None:
        """Close the connection."""
        await self._pool.aclose()
