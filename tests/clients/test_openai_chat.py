"""Chat with OpenAI's own Python client, as its documentation shows it."""

import json
from typing import Any, Literal

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel

from tests.e2e.stack import MODEL, Stack

HAIKU: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Write a haiku about water."}]
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


class CalendarEvent(BaseModel):
    name: str
    day: Literal["Monday", "Friday"]
    participants: list[str]


class Weather(BaseModel):
    """Get the weather of a city."""

    city: str


def asking(question: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": question}]


def test_a_chat(openai_client: OpenAI) -> None:
    completion = openai_client.chat.completions.create(model="gpt-4o", messages=HAIKU)
    message = completion.choices[0].message
    assert message.content is not None
    assert message.content.startswith("Water finds its way")
    assert (completion.model, completion.choices[0].finish_reason) == (MODEL, "stop")
    assert completion._request_id is not None


def test_a_stream(openai_client: OpenAI) -> None:
    stream = openai_client.chat.completions.create(
        model="gpt-4o", messages=HAIKU, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.endswith("does not ask.")
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 5


async def test_an_async_client(site: Stack) -> None:
    async with AsyncOpenAI(base_url=site.base_url, api_key=site.key) as client:
        whole = await client.chat.completions.create(model="gpt-4o", messages=HAIKU)
        stream = await client.chat.completions.create(model="gpt-4o", messages=HAIKU, stream=True)
        parts = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(parts) == whole.choices[0].message.content


def test_headers_of_a_raw_response(openai_client: OpenAI) -> None:
    raw = openai_client.chat.completions.with_raw_response.create(
        model="gpt-4o", messages=HAIKU, extra_headers={"X-Request-Id": "mine-1"}
    )
    assert raw.headers["x-request-id"] == "mine-1"
    assert raw.parse().choices[0].message.content


def test_a_tool_is_called_and_its_result_taken(openai_client: OpenAI) -> None:
    messages = asking("What is the weather in Paris?")
    completion = openai_client.chat.completions.create(model="gpt-4o", messages=messages, tools=[WEATHER])
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    (called,) = choice.message.tool_calls
    assert called.type == "function"
    assert (called.function.name, json.loads(called.function.arguments)) == ("get_weather", {"city": "Paris"})
    messages.append(choice.message.model_dump(exclude_none=True))  # type: ignore[arg-type]
    messages.append({"role": "tool", "tool_call_id": called.id, "content": "15 degrees"})
    answer = openai_client.chat.completions.create(model="gpt-4o", messages=messages, tools=[WEATHER])
    assert answer.choices[0].message.content == "It is 15 degrees in Paris."


def test_calls_in_a_stream(openai_client: OpenAI) -> None:
    stream = openai_client.chat.completions.create(
        model="gpt-4o", messages=asking("What is the weather in Paris and Rome?"), tools=[WEATHER], stream=True
    )
    found: dict[int, Any] = {}
    for chunk in stream:
        for part in chunk.choices[0].delta.tool_calls or []:
            if part.index not in found:
                found[part.index] = part
            elif part.function is not None:
                found[part.index].function.arguments += part.function.arguments or ""
    assert [json.loads(found[index].function.arguments) for index in (0, 1)] == [{"city": "Paris"}, {"city": "Rome"}]
    assert len({found[index].id for index in (0, 1)}) == 2


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_call_that_must_be(openai_client: OpenAI, choice: Any) -> None:
    completion = openai_client.chat.completions.create(
        model="gpt-4o", messages=asking("Hello!"), tools=[WEATHER], tool_choice=choice, max_tokens=200
    )
    message = completion.choices[0].message
    assert message.tool_calls is not None
    called = message.tool_calls[0]
    assert called.type == "function"
    assert called.function.name == "get_weather"
    assert isinstance(json.loads(called.function.arguments)["city"], str)


def test_the_streaming_helper(openai_client: OpenAI) -> None:
    with openai_client.chat.completions.stream(
        model="gpt-4o", messages=asking("What is the weather in Paris?"), tools=[WEATHER]
    ) as stream:
        kinds = {event.type: event for event in stream}
        final = stream.get_final_completion()
    done = kinds["tool_calls.function.arguments.done"]
    assert done.type == "tool_calls.function.arguments.done"
    assert done.parsed_arguments == {"city": "Paris"}
    assert final.choices[0].finish_reason == "tool_calls"
    with openai_client.chat.completions.stream(model="gpt-4o", messages=HAIKU) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        assert stream.get_final_completion().choices[0].message.content == text


def test_an_answer_of_a_pydantic_model(openai_client: OpenAI) -> None:
    messages = asking("Alice and Bob are going to a science fair on Friday.")
    completion = openai_client.chat.completions.parse(
        model="gpt-4o", messages=messages, response_format=CalendarEvent, max_tokens=400
    )
    event = completion.choices[0].message.parsed
    assert isinstance(event, CalendarEvent)
    assert event.day in ("Monday", "Friday")
    with openai_client.chat.completions.stream(
        model="gpt-4o", messages=messages, response_format=CalendarEvent, max_tokens=400
    ) as stream:
        final = stream.until_done().get_final_completion()
    assert isinstance(final.choices[0].message.parsed, CalendarEvent)


def test_a_tool_of_a_pydantic_model(openai_client: OpenAI) -> None:
    completion = openai_client.chat.completions.parse(
        model="gpt-4o",
        messages=asking("What is the weather in Paris?"),
        tools=[openai.pydantic_function_tool(Weather, name="get_weather")],
    )
    calls = completion.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].function.parsed_arguments == Weather(city="Paris")


@pytest.mark.parametrize(
    ("question", "called"), [("What is the weather in Paris?", True), ("Alice goes to a fair on Friday.", False)]
)
def test_a_pydantic_model_or_a_call(openai_client: OpenAI, question: str, called: bool) -> None:
    completion = openai_client.chat.completions.parse(
        model="gpt-4o",
        messages=asking(question),
        tools=[openai.pydantic_function_tool(Weather, name="get_weather")],
        response_format=CalendarEvent,
        max_tokens=400,
    )
    message = completion.choices[0].message
    arguments = [call.function.parsed_arguments for call in message.tool_calls or ()]
    if called:
        assert arguments == [Weather(city="Paris")]
    # A model that calls none answers by the format.
    assert isinstance(message.parsed, CalendarEvent) is not bool(arguments)


def test_json_mode(openai_client: OpenAI) -> None:
    completion = openai_client.chat.completions.create(
        model="gpt-4o", messages=asking("Answer in JSON."), response_format={"type": "json_object"}, max_tokens=400
    )
    assert isinstance(json.loads(completion.choices[0].message.content or ""), dict)


def test_an_image_is_refused_by_its_place(openai_client: OpenAI) -> None:
    image: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": [image]}])
    assert caught.value.param is not None
    assert caught.value.param.startswith("messages")


def test_errors_are_of_the_classes_that_programs_catch(site: Stack, openai_client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        openai_client.chat.completions.create(model="gpt-nothing", messages=HAIKU)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError):
        openai_client.with_options(api_key="sk-wrong").models.list()
    with pytest.raises(openai.BadRequestError) as wrong:
        openai_client.chat.completions.create(model="gpt-4o", messages=HAIKU, temperature=9)
    assert (wrong.value.param, wrong.value.type) == ("temperature", "invalid_request_error")
    unslashed = OpenAI(base_url=site.base_url.removesuffix("/v1"), api_key=site.key, max_retries=0)
    with unslashed, pytest.raises(openai.NotFoundError, match="Did you mean /v1/chat/completions"):
        unslashed.chat.completions.create(model="gpt-4o", messages=HAIKU)
