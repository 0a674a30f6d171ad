"""Everything but chat with OpenAI's own Python client, as its documentation shows it."""

import json
import time
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from tests.clients.conftest import EMBEDDER
from tests.clients.thinking_model import NAME as THINKING
from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack

WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Step(BaseModel):
    explanation: str
    output: str


class MathReasoning(BaseModel):
    steps: list[Step]
    final_answer: str


def test_models(openai_client: OpenAI) -> None:
    names = [model.id for model in openai_client.models.list()]
    assert names == [MODEL, THINKING, EMBEDDER, "gpt-4o"]
    assert openai_client.models.retrieve("gpt-4o").object == "model"


def test_completions(openai_client: OpenAI) -> None:
    completion = openai_client.completions.create(model="gpt-4o", prompt="Say this is a test", max_tokens=7, n=2)
    assert [choice.index for choice in completion.choices] == [0, 1]
    stream = openai_client.completions.create(model="gpt-4o", prompt="A haiku:", stream=True, max_tokens=50)
    assert "".join(chunk.choices[0].text for chunk in stream).startswith("Water finds")


@pytest.mark.parametrize("form", [{}, {"encoding_format": "float"}])
def test_embeddings(openai_client: OpenAI, form: Any) -> None:
    answer = openai_client.embeddings.create(model=EMBEDDER, input=["The food was delicious", "and"], **form)
    assert [one.embedding for one in answer.data] == [[22.0, 0.5, 0.5], [3.0, 0.5, 0.5]]
    assert answer.usage.prompt_tokens > 0


def test_moderations(openai_client: OpenAI) -> None:
    moderation = openai_client.moderations.create(model="omni-moderation-latest", input="I love rivers.")
    assert moderation.results[0].flagged is False
    assert moderation.results[0].categories.violence is False


def test_files(openai_client: OpenAI, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n', encoding="utf-8")
    with path.open("rb") as opened:
        file = openai_client.files.create(file=opened, purpose="user_data")
    assert (file.filename, file.bytes, file.purpose) == ("lines.jsonl", 9, "user_data")
    assert openai_client.files.retrieve(file.id).id == file.id
    assert file.id in [one.id for one in openai_client.files.list(purpose="user_data")]
    assert openai_client.files.content(file.id).text == '{"a": 1}\n'
    assert openai_client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        openai_client.files.retrieve(file.id)


def test_a_batch(openai_client: OpenAI) -> None:
    asked = {"model": MODEL, "messages": [{"role": "user", "content": "Write a haiku about water."}]}
    lines = [
        {"custom_id": f"request-{number}", "method": "POST", "url": "/v1/chat/completions", "body": asked}
        for number in range(3)
    ]
    data = "\n".join(map(json.dumps, lines)).encode()
    file = openai_client.files.create(file=("requests.jsonl", data), purpose="batch")
    batch = openai_client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"about": "water"}
    )
    deadline = time.monotonic() + HANGS_SECONDS
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        assert time.monotonic() < deadline, batch
        time.sleep(0.1)
        batch = openai_client.batches.retrieve(batch.id)
    assert batch.status == "completed", batch
    assert batch.request_counts is not None
    assert (batch.request_counts.total, batch.request_counts.completed) == (3, 3)
    assert batch.output_file_id is not None
    results = [json.loads(line) for line in openai_client.files.content(batch.output_file_id).text.splitlines()]
    assert {result["custom_id"] for result in results} == {line["custom_id"] for line in lines}
    for result in results:
        assert result["response"]["status_code"] == 200
        assert result["response"]["body"]["choices"][0]["message"]["content"].startswith("Water finds")
    assert batch.id in [one.id for one in openai_client.batches.list()]


def test_a_response_and_the_one_after_it(openai_client: OpenAI) -> None:
    first = openai_client.responses.create(model="gpt-4o", input="Write a haiku about water.", instructions="Be brief.")
    assert first.output_text.startswith("Water finds")
    assert (first.status, first.model) == ("completed", MODEL)
    second = openai_client.responses.create(
        model="gpt-4o", previous_response_id=first.id, input=[{"role": "user", "content": "And now?"}]
    )
    assert second.previous_response_id == first.id
    assert openai_client.responses.retrieve(first.id).output_text == first.output_text
    items = list(openai_client.responses.input_items.list(first.id))
    assert len(items) == 1
    openai_client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        openai_client.responses.retrieve(first.id)


def test_events_of_a_response(openai_client: OpenAI) -> None:
    stream = openai_client.responses.create(model="gpt-4o", input="Write a haiku about water.", stream=True)
    events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    with openai_client.responses.stream(model="gpt-4o", input="Write a haiku about water.") as helper:
        text = "".join(event.delta for event in helper if event.type == "response.output_text.delta")
        assert helper.get_final_response().output_text == text


def test_a_function_of_a_response(openai_client: OpenAI) -> None:
    asked: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
    response = openai_client.responses.create(model="gpt-4o", input=asked, tools=[WEATHER])
    (called,) = [item for item in response.output if item.type == "function_call"]
    assert json.loads(called.arguments) == {"city": "Paris"}
    asked += [item.model_dump(exclude_none=True) for item in response.output]
    asked.append({"type": "function_call_output", "call_id": called.call_id, "output": "15 degrees"})
    answer = openai_client.responses.create(model="gpt-4o", input=asked, tools=[WEATHER])
    assert answer.output_text == "It is 15 degrees in Paris."


def test_a_response_of_a_pydantic_model(openai_client: OpenAI) -> None:
    response = openai_client.responses.parse(
        model="gpt-4o", input="Solve 8x + 31 = 2.", text_format=MathReasoning, max_output_tokens=800
    )
    assert isinstance(response.output_parsed, MathReasoning)


def test_a_response_in_the_background(openai_client: OpenAI) -> None:
    response = openai_client.responses.create(model="gpt-4o", input="Write a haiku about water.", background=True)
    deadline = time.monotonic() + HANGS_SECONDS
    while response.status in ("queued", "in_progress"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
        response = openai_client.responses.retrieve(response.id)
    assert (response.status, response.output_text[:5]) == ("completed", "Water")


def test_conversations(openai_client: OpenAI) -> None:
    conversation = openai_client.conversations.create(metadata={"topic": "water"})
    response = openai_client.responses.create(
        model="gpt-4o", conversation=conversation.id, input="Write a haiku about water."
    )
    assert response.output_text.startswith("Water")
    items = list(openai_client.conversations.items.list(conversation.id))
    assert len(items) == 2
    assert openai_client.conversations.delete(conversation.id).deleted


async def test_async_resources(site: Stack) -> None:
    async with AsyncOpenAI(base_url=site.base_url, api_key=site.key) as client:
        models = [model.id async for model in client.models.list()]
        assert models[:1] == [MODEL]
        response = await client.responses.create(model="gpt-4o", input="Write a haiku about water.")
        embedding = await client.embeddings.create(model=EMBEDDER, input="water")
        assert (response.output_text[:5], len(embedding.data[0].embedding)) == ("Water", 3)
        with pytest.raises(openai.NotFoundError):
            await client.batches.retrieve("batch_nothing")
