"""Pydantic AI as its documentation shows it for servers that speak OpenAI's API, over chats and over responses."""

import asyncio
import os

from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.messages import ThinkingPart
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

THINKING = "qwen3-sim"


class Fair(BaseModel):
    """A fair."""

    name: str
    day: str


Kind = type[OpenAIChatModel] | type[OpenAIResponsesModel]


def model(kind: Kind, name: str = "gpt-4o") -> OpenAIChatModel | OpenAIResponsesModel:
    client = AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], max_retries=0)
    return kind(name, provider=OpenAIProvider(openai_client=client))


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return f"15 degrees in {city}"


async def plain(kind: Kind) -> None:
    agent = Agent(model(kind), instructions="You write haiku.")
    result = await agent.run("Write a haiku about water.")
    assert result.output.startswith("Water finds"), result
    assert result.usage.output_tokens > 0
    again = await agent.run("Another haiku.", message_history=result.all_messages())
    assert again.output == result.output
    async with agent.run_stream("Write a haiku about water.") as streamed:
        parts = [part async for part in streamed.stream_text(delta=True)]
    assert "".join(parts) == result.output, parts


async def tools(kind: Kind) -> None:
    for name in ("gpt-4o", THINKING):
        agent = Agent(model(kind, name), tools=[get_weather])
        result = await agent.run("What is the weather in Paris?")
        assert result.output == "It is 15 degrees in Paris.", result
        async with agent.run_stream("What is the weather in Paris?") as streamed:
            assert await streamed.get_output() == result.output


async def thoughts(kind: Kind) -> None:
    agent = Agent(model(kind, THINKING), model_settings={"thinking": "low"})
    result = await agent.run("Write a haiku about water.")
    assert result.output.startswith("Water finds"), result
    thought = [part for message in result.all_messages() for part in message.parts if isinstance(part, ThinkingPart)]
    assert thought, result.all_messages()
    again = await agent.run("Another haiku.", message_history=result.all_messages())
    assert again.output == result.output


async def structured(kind: Kind) -> None:
    settings = {"max_tokens": 400}
    for output in (NativeOutput(Fair), ToolOutput(Fair)):
        agent = Agent(model(kind), output_type=output, model_settings=settings)
        result = await agent.run("There is a fair on Friday.")
        assert isinstance(result.output, Fair), result


async def main() -> None:
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        for step in (plain, tools, thoughts, structured):
            try:
                await step(kind)
            except Exception as error:
                error.add_note(f"{step.__name__} with {kind.__name__}")
                raise


if __name__ == "__main__":
    asyncio.run(main())
