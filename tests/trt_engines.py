"""Engines around the fake TensorRT-LLM, and what a test needs to drive them."""

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator
from dataclasses import fields
from typing import Any
from unittest import mock

from protos.types import Finish, Shape, TokenLogprobs
from replicas.engine import EngineStep
from replicas.engines.tensorrt_llm.library import Library, load_library
from replicas.engines.tensorrt_llm.options import KvOptions, Options
from replicas.engines.tensorrt_llm.trtllm_engine import TensorRtLlmEngine
from tests.fake_tensorrt_llm import package as fake_tensorrt_llm
from tests.fake_tensorrt_llm.llm import LLM

END = 2


def fake_library() -> Library:
    """The names that the engine uses, of the fake."""
    with mock.patch.dict(sys.modules, fake_tensorrt_llm.modules()):
        return load_library()


def options_of(**given: Any) -> Options:
    """Small, on two GPUs."""
    kv = {each.name for each in fields(KvOptions)}
    cache = KvOptions(**({"max_tokens": 32 * 500} | {k: v for k, v in given.items() if k in kv}))
    fixed: dict[str, Any] = {
        "model": "mixtral-8x7b",
        "checkpoint": "/models/mixtral",
        "max_sequence_tokens": 1000,
        "end_ids": (END,),
        "shape": Shape(tp=2),
        "kv": cache,
        "warmup_seconds": 5.0,
        "look_seconds": 0.02,
    }
    return Options(**(fixed | {k: v for k, v in given.items() if k not in kv}))


def trt_engine(**given: Any) -> TensorRtLlmEngine:
    """An engine that has not been started; `clock` and `sleep` are the engine's own, the rest are options."""
    own = {k: given.pop(k) for k in ("clock", "sleep") if k in given}
    return TensorRtLlmEngine(options_of(**given), fake_library(), rng=random.Random(1), **own)


class Heard:
    """What an engine said, by (handle, index)."""

    def __init__(self) -> None:
        self.steps: list[EngineStep] = []
        self.tokens: dict[tuple[int, int], list[int]] = {}
        self.logprobs: dict[tuple[int, int], list[TokenLogprobs]] = {}
        self.finishes: dict[tuple[int, int], Finish] = {}
        self.started: list[tuple[int, int]] = []
        self.events: list[Any] = []
        self.adapters: list[tuple[str, ...]] = []

    def __call__(self, step: EngineStep) -> None:
        self.steps.append(step)
        for delta in step.deltas:
            assert delta.token_ids
            self.tokens.setdefault((delta.handle, delta.index), []).extend(delta.token_ids)
            self.logprobs.setdefault((delta.handle, delta.index), []).extend(delta.logprobs or [])
        for handle, index, finish in step.finishes:
            assert (handle, index) not in self.finishes
            self.finishes[handle, index] = finish
        self.started += step.started
        self.events += step.kv_events
        if step.adapters is not None:
            self.adapters.append(step.adapters)


@contextlib.asynccontextmanager
async def started(engine: TensorRtLlmEngine) -> AsyncIterator[tuple[LLM, Heard, "asyncio.Task[None]"]]:
    """An engine that runs: its fake LLM, what it says, and the task that it runs in."""
    await engine.start(lambda step: None)
    heard = Heard()
    task = asyncio.create_task(engine.run(heard))
    await asyncio.sleep(0)
    try:
        yield LLM.last, heard, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await engine.stop()
