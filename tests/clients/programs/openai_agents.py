"""OpenAI's Agents SDK as its documentation shows it for other servers, over responses and over chats."""

import asyncio
import os

from agents import (
    Agent,
    ModelSettings,
    Runner,
    function_tool,
    set_default_openai_api,
    set_default_openai_client,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
from pydantic import BaseModel

MODEL = "gpt-4o"
THINKING = "qwen3-sim"


@function_tool  # type: ignore[untyped-decorator]
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return f"15 degrees in {city}"


class Fair(BaseModel):
    name: str
    day: str


async def plain() -> None:
    agent = Agent(name="Poet", instructions="You write haiku.", model=MODEL)
    result = await Runner.run(agent, "Write a haiku about water.")
    assert result.final_output.startswith("Water finds"), result
    assert result.context_wrapper.usage.output_tokens > 0
    again = await Runner.run(agent, [*result.to_input_list(), {"role": "user", "content": "Another haiku."}])
    assert again.final_output == result.final_output


async def streamed() -> None:
    result = Runner.run_streamed(Agent(name="Poet", model=MODEL), "Write a haiku about water.")
    text = ""
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            text += event.data.delta
    assert text == result.final_output, text


async def tools() -> None:
    for model in (MODEL, THINKING):
        agent = Agent(name="Weather", instructions="Be brief.", tools=[get_weather], model=model)
        result = await Runner.run(agent, "What is the weather in Paris?")
        assert result.final_output == "It is 15 degrees in Paris.", result
        streamed = Runner.run_streamed(agent, "What is the weather in Paris?")
        kinds = [event.item.type async for event in streamed.stream_events() if event.type == "run_item_stream_event"]
        assert [kind for kind in kinds if kind != "reasoning_item"] == [
            "tool_call_item",
            "tool_call_output_item",
            "message_output_item",
        ], kinds
        assert ("reasoning_item" in kinds) == (model == THINKING), kinds
        assert streamed.final_output == result.final_output


async def thoughts() -> None:
    settings = ModelSettings(reasoning=Reasoning(effort="low", summary="auto"), max_tokens=32000)
    agent = Agent(name="Thinker", model=THINKING, model_settings=settings)
    result = await Runner.run(agent, "Write a haiku about water.")
    assert result.final_output.startswith("Water finds"), result
    assert [item.type for item in result.new_items] == ["reasoning_item", "message_output_item"], result.new_items


async def structured() -> None:
    settings = ModelSettings(max_tokens=400)
    agent = Agent(name="Reader", model=MODEL, output_type=Fair, model_settings=settings)
    result = await Runner.run(agent, "There is a fair on Friday.")
    assert isinstance(result.final_output, Fair), result


async def handed_over() -> None:
    weather = Agent(name="weather", handoff_description="Knows the weather.", model=MODEL)
    agent = Agent(name="Triage", instructions="Hand over.", handoffs=[weather], model=MODEL)
    result = await Runner.run(agent, "Please hand me over to the weather agent.")
    assert result.last_agent is weather, result
    assert result.final_output == "You are with the weather agent now.", result


async def main() -> None:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], max_retries=0)
    set_default_openai_client(client, use_for_tracing=False)
    for api in ("responses", "chat_completions"):
        set_default_openai_api(api)
        for step in (plain, streamed, tools, thoughts, structured, handed_over):
            try:
                await step()
            except Exception as error:
                error.add_note(f"{step.__name__} over {api}")
                raise


if __name__ == "__main__":
    asyncio.run(main())
