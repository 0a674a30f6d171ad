"""Processes of the library that were started before their model was known."""

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from protos.types import Shape
from replicas.engines.tensorrt_llm import waiting_workers
from replicas.engines.tensorrt_llm.trtllm_engine import SKIP_PROFILING, TensorRtLlmEngine
from replicas.engines.tensorrt_llm.waiting_workers import WaitingWorkers, start_workers, visible_gpus
from tests.fake_tensorrt_llm.llm import LLM
from tests.fake_tensorrt_llm.sessions import MpiPoolSession
from tests.trt_engines import fake_library, options_of


def waiting(count: int) -> WaitingWorkers:
    made = start_workers(fake_library(), count)
    assert made is not None
    return made


def engine_with(workers: WaitingWorkers, **given: Any) -> TensorRtLlmEngine:
    return TensorRtLlmEngine(options_of(**given), fake_library(), workers=workers)


async def test_the_model_runs_in_them_and_they_end_after_it() -> None:
    workers = waiting(2)
    assert workers.session.ran == [("_make_ready", ())]
    engine = engine_with(workers, shape=Shape(tp=2))
    await engine.start(lambda step: None)
    assert LLM.last.arguments["_mpi_session"] is workers.session
    assert not workers.session.shut_down
    await engine.stop()
    assert (LLM.last.shutdowns, workers.session.shut_down) == (1, True)


async def test_as_many_as_another_shape_needs_are_ended(caplog: pytest.LogCaptureFixture) -> None:
    workers = waiting(4)
    engine = engine_with(workers, shape=Shape(tp=2))
    await engine.start(lambda step: None)
    assert workers.session.shut_down
    assert "_mpi_session" not in LLM.last.arguments
    assert "4 processes wait" in caplog.text
    await engine.stop()


async def test_they_are_told_not_to_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SKIP_PROFILING, "0")
    workers = waiting(2)
    engine = engine_with(workers, profiled=False)
    await engine.start(lambda step: None)
    assert workers.session.ran[-1] == ("_set_variable", (SKIP_PROFILING, "1"))
    await engine.stop()


async def test_they_end_with_a_model_that_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = waiting(2)
    engine = engine_with(workers, extra={"no_such_argument": 1})
    with pytest.raises(ValueError, match="no_such_argument"):
        await engine.start(lambda step: None)
    await engine.stop()
    assert workers.session.shut_down


@pytest.mark.parametrize("gpus", [0, 1])
def test_for_one_gpu_the_library_takes_none(gpus: int) -> None:
    assert start_workers(fake_library(), gpus) is None


def test_processes_that_do_not_come_up_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: MpiPoolSession, task: object) -> None:
        raise RuntimeError("no CUDA")

    monkeypatch.setattr(MpiPoolSession, "submit_sync", broken)
    with pytest.raises(RuntimeError, match="no CUDA"):
        start_workers(fake_library(), 2)
    assert MpiPoolSession.made[-1].shut_down


@pytest.mark.parametrize(("given", "count"), [(None, 0), ("", 0), ("3", 1), ("0,1, 5", 3), ("GPU-a,GPU-b", 2)])
def test_the_environment_says_how_many_gpus_there_are(
    given: str | None, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert visible_gpus() == count


def test_each_process_makes_the_context_of_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    world = SimpleNamespace(barrier=lambda: done.append("met"), Get_rank=lambda: 5)
    mpi, torch = ModuleType("mpi4py.MPI"), ModuleType("torch")
    mpi.__dict__["COMM_WORLD"] = world
    torch.__dict__["cuda"] = SimpleNamespace(
        set_device=done.append, device_count=lambda: 4, synchronize=lambda: done.append("made")
    )
    for module in (ModuleType("mpi4py"), mpi, torch, ModuleType("tensorrt_llm")):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    waiting_workers._make_ready()
    assert done == ["met", 1, "made"]
    monkeypatch.setenv("PENSTOCK_TEST_VARIABLE", "before")
    waiting_workers._set_variable("PENSTOCK_TEST_VARIABLE", "after")
    assert os.environ["PENSTOCK_TEST_VARIABLE"] == "after"
