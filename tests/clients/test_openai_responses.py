"""The Responses API with OpenAI's own Python client, as its documentation shows it."""

import json
import time
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import FunctionToolParam, Response, ResponseInputParam
from pydantic import BaseModel

from tests.clients.test_openai_chat import CalendarEvent
from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack

HAIKU = "Write a haiku about water."
WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": None,
}


class Weather(BaseModel):
    """Get the weather of a city."""

    city: str


def ended(client: OpenAI, response: Response) -> Response:
    """As the documentation polls a background response."""
    give_up = time.monotonic() + HANGS_SECONDS
    while response.status in {"queued", "in_progress"}:
        assert time.monotonic() < give_up
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    return response


def test_a_response(openai_client: OpenAI) -> None:
    response = openai_client.responses.create(
        model="gpt-4o", instructions="You are a poet.", input=HAIKU, metadata={"for": "a test"}
    )
    assert response.output_text.startswith("Water finds its way")
    assert (response.status, response.model, response.object) == ("completed", MODEL, "response")
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert openai_client.responses.retrieve(response.id) == response
    (item,) = openai_client.responses.input_items.list(response.id)
    assert item.type == "message"
    openai_client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        openai_client.responses.retrieve(response.id)


# The SDK says that a user's messages are in this output, and has no type for them there.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_conversation_is_compacted_and_goes_on(openai_client: OpenAI) -> None:
    first = openai_client.responses.create(model="gpt-4o", input=HAIKU)
    compacted = openai_client.responses.compact(model="gpt-4o", previous_response_id=first.id)
    assert (compacted.object, compacted.output[-1].type) == ("response.compaction", "compaction")
    assert compacted.usage.output_tokens > 0
    window: list[Any] = [*compacted.output, {"role": "user", "content": "Once more, please."}]
    response = openai_client.responses.create(model="gpt-4o", input=window)
    assert response.output_text.startswith("Water finds its way")


def test_a_stream(openai_client: OpenAI) -> None:
    events = list(openai_client.responses.create(model=MODEL, input=HAIKU, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [events[0].type, events[1].type] == ["response.created", "response.in_progress"]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == text
    assert openai_client.responses.retrieve(last.response.id).output_text == text


def test_a_stream_of_the_helper(openai_client: OpenAI) -> None:
    with openai_client.responses.stream(model=MODEL, input=HAIKU) as stream:
        texts = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert texts[-1] == final.output_text


def test_turns(openai_client: OpenAI) -> None:
    first = openai_client.responses.create(model=MODEL, input=HAIKU)
    second = openai_client.responses.create(model=MODEL, previous_response_id=first.id, input="And another one.")
    assert second.previous_response_id == first.id
    items = list(openai_client.responses.input_items.list(second.id, order="asc", limit=1))
    assert [item.type for item in items] == ["message"] * 3
    with pytest.raises(openai.BadRequestError) as error:
        openai_client.responses.create(model=MODEL, previous_response_id="resp_" + "0" * 24, input="x")
    assert error.value.code == "previous_response_not_found"


def test_a_tool_is_called(openai_client: OpenAI) -> None:
    question: Any = "What is the weather in Paris and Rome?"
    first = openai_client.responses.create(model=MODEL, tools=[WEATHER], input=question)
    calls = [item for item in first.output if item.type == "function_call"]
    assert [json.loads(call.arguments)["city"] for call in calls] == ["Paris", "Rome"]
    outputs: ResponseInputParam = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "15 degrees"} for call in calls
    ]
    second = openai_client.responses.create(model=MODEL, tools=[WEATHER], previous_response_id=first.id, input=outputs)
    assert second.output_text == "It is 15 degrees in Paris."
    # The same without the store.
    items: Any = [{"role": "user", "content": question}, *first.output, *outputs]
    again = openai_client.responses.create(model=MODEL, tools=[WEATHER], input=items, store=False)
    assert again.output_text == second.output_text


def test_a_tools_arguments_are_streamed(openai_client: OpenAI) -> None:
    with openai_client.responses.stream(model=MODEL, tools=[WEATHER], input="What is the weather in Paris?") as stream:
        pieces = [event.delta for event in stream if event.type == "response.function_call_arguments.delta"]
        final = stream.get_final_response()
    (call,) = final.output
    assert call.type == "function_call"
    assert json.loads("".join(pieces)) == json.loads(call.arguments) == {"city": "Paris"}


def test_a_tool_that_must_be_called(openai_client: OpenAI) -> None:
    response = openai_client.responses.parse(
        model=MODEL,
        tools=[openai.pydantic_function_tool(Weather)],
        tool_choice="required",
        input="Say anything.",
    )
    (call, *_) = response.output
    assert call.type == "function_call"
    assert isinstance(call.parsed_arguments, Weather)


def test_structured_output(openai_client: OpenAI) -> None:
    response = openai_client.responses.parse(
        model=MODEL, input="Alice and Bob meet on Friday.", text_format=CalendarEvent
    )
    assert isinstance(response.output_parsed, CalendarEvent)
    with openai_client.responses.stream(model=MODEL, input="Alice meets Bob.", text_format=CalendarEvent) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_response().output_parsed, CalendarEvent)
    plain = openai_client.responses.create(model=MODEL, input="JSON, please.", text={"format": {"type": "json_object"}})
    assert isinstance(json.loads(plain.output_text), dict)


def test_a_response_in_the_background(openai_client: OpenAI) -> None:
    queued = openai_client.responses.create(model=MODEL, input=HAIKU, background=True)
    assert queued.status in {"queued", "in_progress"}
    done = ended(openai_client, queued)
    assert done.output_text.startswith("Water finds its way")
    events = list(openai_client.responses.retrieve(done.id, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    rest = list(openai_client.responses.retrieve(done.id, stream=True, starting_after=5))
    assert rest == events[6:]
    assert openai_client.responses.cancel(done.id).status == "completed"
    with openai_client.responses.stream(response_id=done.id) as stream:
        assert stream.get_final_response().output_text == done.output_text
    streamed = list(openai_client.responses.create(model=MODEL, input=HAIKU, background=True, stream=True))
    assert streamed[-1].type == "response.completed"


def test_a_conversation(openai_client: OpenAI) -> None:
    conversation = openai_client.conversations.create(
        metadata={"topic": "poems"}, items=[{"type": "message", "role": "user", "content": "Hello."}]
    )
    assert openai_client.conversations.retrieve(conversation.id) == conversation
    response = openai_client.responses.create(model=MODEL, conversation=conversation.id, input=HAIKU)
    assert response.conversation is not None
    assert response.conversation.id == conversation.id
    items = list(openai_client.conversations.items.list(conversation.id, order="asc", limit=2))
    assert [getattr(item, "role", None) for item in items] == ["user", "user", "assistant"]
    first = items[0]
    assert first.id is not None
    assert openai_client.conversations.items.retrieve(first.id, conversation_id=conversation.id) == first
    openai_client.conversations.items.delete(first.id, conversation_id=conversation.id)
    added = openai_client.conversations.items.create(
        conversation.id, items=[{"type": "message", "role": "user", "content": "Bye."}]
    )
    assert len(added.data) == 1
    assert len(list(openai_client.conversations.items.list(conversation.id))) == 3
    updated = openai_client.conversations.update(conversation.id, metadata={"topic": "water"})
    assert updated.metadata == {"topic": "water"}
    assert openai_client.conversations.delete(conversation.id).deleted
    with pytest.raises(openai.NotFoundError):
        openai_client.conversations.retrieve(conversation.id)


def test_tokens_are_counted(openai_client: OpenAI) -> None:
    counted = openai_client.responses.input_tokens.count(model=MODEL, input=HAIKU)
    response = openai_client.responses.create(model=MODEL, input=HAIKU, store=False)
    assert response.usage is not None
    assert counted.input_tokens == response.usage.input_tokens


def test_hosted_tools_are_left_out(openai_client: OpenAI) -> None:
    raw = openai_client.responses.with_raw_response.create(model=MODEL, input=HAIKU, tools=[{"type": "web_search"}])
    assert raw.headers["x-penstock-adjusted"] == "tools[0]=web_search:ignored"
    assert raw.parse().output_text.startswith("Water finds its way")
    with pytest.raises(openai.BadRequestError) as error:
        openai_client.responses.create(
            model=MODEL, input="News?", tools=[{"type": "web_search"}], tool_choice="required"
        )
    assert error.value.param == "tool_choice"


async def test_the_same_asynchronously(site: Stack) -> None:
    async with AsyncOpenAI(base_url=site.base_url, api_key=site.key, max_retries=0, timeout=HANGS_SECONDS) as client:
        response = await client.responses.create(model=MODEL, input=HAIKU)
        assert response.output_text.startswith("Water finds its way")
        async with client.responses.stream(model=MODEL, input=HAIKU) as stream:
            async for _ in stream:
                pass
            assert (await stream.get_final_response()).output_text == response.output_text
        parsed = await client.responses.parse(model=MODEL, input="They meet.", text_format=CalendarEvent)
        assert isinstance(parsed.output_parsed, CalendarEvent)
        queued = await client.responses.create(
            model=MODEL, input=HAIKU, previous_response_id=response.id, background=True, stream=True
        )
        types = [event.type async for event in queued]
        assert types[-1] == "response.completed"
        conversation = await client.conversations.create()
        again = await client.responses.create(model=MODEL, input=HAIKU, conversation=conversation.id)
        assert [item.type async for item in client.conversations.items.list(conversation.id)] == ["message"] * 2
        await client.responses.delete(again.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(again.id)
