"""The library hears in which trace a request stands, where its version takes that."""

from typing import Any

import pytest

from tests.fake_tensorrt_llm.llm import LLM
from tests.harness import submit_of
from tests.trt_engines import started, trt_engine

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_it_is_told_of_what_is_traced_alone() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, _, _):
        engine.submit(1, submit_of(3))
        assert llm.calls[-1]["trace"] is None
        engine.submit(2, submit_of(3, trace=f"{PARENT} a=1"))
        assert llm.calls[-1]["trace"] == {"traceparent": PARENT, "tracestate": "a=1"}


async def test_an_older_version_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = LLM.generate_async

    def older(self: LLM, inputs: list[int], *, sampling_params: Any, streaming: bool = False) -> Any:
        return ask(self, inputs, sampling_params=sampling_params, streaming=streaming)

    monkeypatch.setattr(LLM, "generate_async", older)
    engine = trt_engine()
    async with started(engine) as (llm, _, _):
        engine.submit(1, submit_of(3, trace=PARENT))
        assert llm.calls[-1]["inputs"] == [1, 2, 3]
