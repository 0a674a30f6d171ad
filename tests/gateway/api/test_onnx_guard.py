"""A model by ONNX Runtime through the whole application: prompts are refused, go on, or are not judged in time."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.filtering.guards import onnx
from tests.asgi import gateway_of
from tests.gateway.api.answers import shown
from tests.gateway.api.test_filters import says, user
from tests.gateway.guards.tiny_model import write_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def rules(folder: Path, direction: str, *, fail_open: bool = False, **fields: Any) -> dict[str, Any]:
    own = {"path": str(folder), "labels": ["INJECTION"]} | fields
    return {
        "filters": [{"name": "guard", "onnx": own}],
        direction: ["guard"],
        "on_failure": "fail_open" if fail_open else "fail_closed",
    }


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_prompt_is_refused_or_goes_on(store_url: str, folder: Path, parallel: bool, stream: bool) -> None:
    async with gateway_of(store_url, says("Fine. "), safety=rules(folder, "input", parallel=parallel)) as client:
        answer = await client.chat(messages=user("hello attack"), stream=stream)
        assert (answer.status, answer.error["code"]) == (400, "content_filter")
        assert answer.error["message"] == "The prompt was refused by the content filter 'guard' (injection)."
        assert answer.error["param"] == "messages[1].content"
        fine = await client.chat(messages=user("hello world"), stream=stream, max_tokens=2, seed=1)
        assert fine.status == 200
        assert shown(fine)[0]["text"]


async def test_an_answer_is_judged_in_windows(store_url: str, folder: Path) -> None:
    safety = rules(folder, "output", window_characters=16)
    async with gateway_of(store_url, says("hello world hello world hello attack. "), safety=safety) as client:
        answer = shown(await client.chat(stream=True, max_tokens=40, seed=1))[0]
        assert answer["end"] == "content_filter"
        assert "attack" not in answer["text"]


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The model takes as long as the test, after it was asked once at the start."""
    released, plainly = threading.Event(), onnx._Model.probabilities
    started: list[None] = []

    def hang(model: Any, windows: Any) -> Any:
        if started:
            released.wait(30)
        started.append(None)
        return plainly(model, windows)

    monkeypatch.setattr(onnx._Model, "probabilities", hang)
    yield
    released.set()


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("fail_open", [True, False])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.usefixtures("hanging")
async def test_a_verdict_that_does_not_come(
    store_url: str, folder: Path, fail_open: bool, stream: bool, parallel: bool
) -> None:
    safety = rules(folder, "input", fail_open=fail_open, timeout_seconds=0.05, parallel=parallel)
    async with gateway_of(store_url, says("Fine. "), safety=safety) as client:
        answer = await client.chat(messages=user("hello attack"), stream=stream, max_tokens=2, seed=1)
        if fail_open:
            assert answer.status == 200
            assert shown(answer)[0]["text"]
        else:
            assert (answer.status, answer.error["code"]) == (503, "filter_failed")
