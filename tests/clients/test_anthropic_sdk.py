"""The official anthropic client against a real gateway, as its own documentation uses it."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import beta_tool
from anthropic.types import MessageParam, ToolParam, ToolUseBlock
from pydantic import BaseModel, ConfigDict

from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack, config_text
from tests.ports import free_port

HELLO: list[MessageParam] = [{"role": "user", "content": "Hello, Claude"}]
QUESTION: MessageParam = {"role": "user", "content": "What is the weather like in Paris?"}
WEATHER: ToolParam = {
    "name": "get_weather",
    "description": "Get the current weather in a given location.",
    "input_schema": {
        "type": "object",
        "properties": {"location": {"type": "string", "enum": ["Paris", "Rome"]}, "days": {"type": "integer"}},
        "required": ["location", "days"],
        "additionalProperties": False,
    },
}
CALL = json.dumps([{"name": "get_weather", "arguments": {"location": "Paris", "days": 1}, "id": "abcdefgh1"}])
#: What the engine says to prompts that have the text; the first line counts.
ANSWERS = [
    ("15 degrees", "It is 15 degrees in Paris."),
    ("weather like in Paris", f"[TOOL_CALLS]{CALL}"),
    ("Count to five", "One two three four five."),
]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One worker and one replica that says what it is told to."""
    with tempfile.TemporaryDirectory(prefix="penstock-clients-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        lines = (json.dumps({"contains": said, "answer": answer}) for said, answer in ANSWERS)
        (folder / "answers.jsonl").write_text("\n".join(lines), encoding="utf-8")
        text = config_text(free_port(), workers=1, simulated="instant: true, answers: answers.jsonl")
        started = Stack(folder, text)
        try:
            started.start()
            yield started
        finally:
            started.close()


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=root(stack), api_key=stack.key, max_retries=0, timeout=HANGS_SECONDS) as made:
        yield made


def root(stack: Stack) -> str:
    return stack.base_url.removesuffix("/v1")


def test_a_message(client: anthropic.Anthropic) -> None:
    message = client.messages.create(
        model=MODEL, max_tokens=30, messages=HELLO, system="Be kind.", extra_body={"temperature": 0.5}
    )
    assert message._request_id is not None
    assert message.id == message._request_id.replace("req_", "msg_")
    assert (message.role, message.model, message.type) == ("assistant", MODEL, "message")
    (block,) = message.content
    assert block.type == "text"
    assert block.text
    assert message.usage.output_tokens > 0


def test_a_stream_of_events(client: anthropic.Anthropic) -> None:
    text = ""
    with client.messages.create(model=MODEL, max_tokens=30, messages=HELLO, stream=True) as stream:
        names = []
        for event in stream:
            names.append(event.type)
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                text += event.delta.text
    assert text
    assert names[:2] == ["message_start", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_the_stream_helper(client: anthropic.Anthropic) -> None:
    asked: MessageParam = {"role": "user", "content": "Count to five."}
    with client.messages.stream(model=MODEL, max_tokens=30, messages=[asked]) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == stream.get_final_text() == "One two three four five."
    assert message.stop_reason == "end_turn"
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) > 5
    assert message.usage.output_tokens >= 5
    stopped = client.messages.create(model=MODEL, max_tokens=30, messages=[asked], stop_sequences=["six", " four"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " four")
    assert stopped.content[0].to_dict() == {"type": "text", "text": "One two three"}


async def test_the_asynchronous_client(stack: Stack) -> None:
    async with anthropic.AsyncAnthropic(base_url=root(stack), api_key=stack.key, max_retries=0) as client:
        message = await client.messages.create(model=MODEL, max_tokens=10, messages=HELLO)
        assert message.content
        async with client.messages.stream(model=MODEL, max_tokens=10, messages=HELLO) as stream:
            text = "".join([piece async for piece in stream.text_stream])
            final = await stream.get_final_message()
        assert text == "".join(block.text for block in final.content if block.type == "text")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_is_called_and_its_result_goes_back(client: anthropic.Anthropic, streamed: bool) -> None:
    def ask(*messages: MessageParam) -> Any:
        fields: dict[str, Any] = {"model": MODEL, "max_tokens": 200, "tools": [WEATHER], "messages": messages}
        if not streamed:
            return client.messages.create(**fields)
        with client.messages.stream(**fields) as stream:
            pieces = [event.partial_json for event in stream if event.type == "input_json"]
            final = stream.get_final_message()
        assert bool(pieces) == (final.stop_reason == "tool_use")
        return final

    first = ask(QUESTION)
    assert first.stop_reason == "tool_use"
    (use,) = first.content
    assert isinstance(use, ToolUseBlock)
    assert (use.name, use.input) == ("get_weather", {"location": "Paris", "days": 1})
    result: MessageParam = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "15 degrees"}],
    }
    second = ask(QUESTION, {"role": "assistant", "content": first.content}, result)
    assert second.stop_reason == "end_turn"
    assert second.content[0].text == "It is 15 degrees in Paris."


def test_the_tool_runner_of_the_beta_resource(client: anthropic.Anthropic) -> None:
    asked = []

    @beta_tool
    def get_weather(location: str, days: int) -> str:
        """Get the weather."""
        asked.append((location, days))
        return "15 degrees"

    runner = client.beta.messages.tool_runner(
        model=MODEL,
        max_tokens=200,
        tools=[get_weather],
        messages=[{"role": "user", "content": "What is the weather like in Paris?"}],
    )
    final = runner.until_done()
    assert asked == [("Paris", 1)]
    assert final.content[0].to_dict()["text"] == "It is 15 degrees in Paris."


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_that_is_forced_fits_its_schema(client: anthropic.Anthropic, choice: Any, streamed: bool) -> None:
    fields: dict[str, Any] = {"model": MODEL, "max_tokens": 500, "tools": [WEATHER], "messages": HELLO}
    fields["tool_choice"] = choice | {"disable_parallel_tool_use": True}
    if streamed:
        with client.messages.stream(**fields) as stream:
            message: Any = stream.get_final_message()
    else:
        message = client.messages.create(**fields)
    assert message.stop_reason == "tool_use"
    (use,) = message.content
    assert use.name == "get_weather"
    assert use.input["location"] in ("Paris", "Rome")
    assert isinstance(use.input["days"], int)


class Contact(BaseModel):
    """What an answer is to say."""

    model_config = ConfigDict(extra="forbid")
    name: str
    demo: bool


def test_structured_output_is_parsed(client: anthropic.Anthropic) -> None:
    message = client.messages.parse(model=MODEL, max_tokens=1000, messages=HELLO, output_format=Contact)
    assert isinstance(message.parsed_output, Contact)


def test_tokens_are_counted_before_they_are_spent(client: anthropic.Anthropic) -> None:
    fields: dict[str, Any] = {"model": MODEL, "messages": [QUESTION], "system": "Be kind.", "tools": [WEATHER]}
    counted = client.messages.count_tokens(**fields)
    usage = client.messages.create(max_tokens=1, **fields).usage
    assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)
    assert client.messages.count_tokens(model=MODEL, messages=[QUESTION]).input_tokens < counted.input_tokens


def test_errors_are_raised_as_what_they_are(stack: Stack, client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.messages.create(model="claude-none", max_tokens=5, messages=HELLO)
    assert missing.value.type == "not_found_error"
    assert missing.value.request_id is not None
    nothing: Any = {"type": "text"}
    with pytest.raises(anthropic.BadRequestError) as bad:
        client.messages.create(model=MODEL, max_tokens=5, messages=[{"role": "user", "content": [nothing]}])
    assert bad.value.api_message == "messages.0.content.0.text: Field required."
    with pytest.raises(anthropic.BadRequestError) as image:
        source: Any = {"type": "url", "url": "https://example.com/a.png"}
        client.messages.create(
            model=MODEL,
            max_tokens=5,
            messages=[{"role": "user", "content": [{"type": "image", "source": source}]}],
        )
    assert "messages.0.content.0" in str(image.value.api_message)
    with pytest.raises(anthropic.BadRequestError, match="tool_choice"):
        client.messages.create(
            model=MODEL,
            max_tokens=5,
            messages=HELLO,
            tools=[{"type": "web_search_20250305", "name": "web_search"}],
            tool_choice={"type": "any"},
        )
    with (
        anthropic.Anthropic(base_url=root(stack), api_key="wrong", max_retries=0) as stranger,
        pytest.raises(anthropic.AuthenticationError) as unknown,
    ):
        stranger.messages.create(model=MODEL, max_tokens=5, messages=HELLO)
    assert unknown.value.type == "authentication_error"
    with pytest.raises(anthropic.NotFoundError):
        client.messages.batches.list()
