"""What the simulated models say to the prompts of the clients' programs."""

import json
from typing import Any, Final


def call(name: str, **arguments: Any) -> str:
    """As Mistral's models write it, and compact, as guided engines do; calls follow one another."""
    return f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments, separators=(',', ':'))}"


def hermes_call(name: str, **arguments: Any) -> str:
    """As Qwen's models write it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def thought(text: str, answer: str) -> str:
    return f"<think>\n{text}\n</think>\n\n{answer}"


HAIKU: Final = "Water finds its way / between two stones / and does not ask."

#: The first line whose text the prompt has counts, so what ends a conversation stands before what begins it.
ANSWERS: Final = (
    ("15 degrees", "It is 15 degrees in Paris."),
    ('{"assistant":"weather"}', "You are with the weather agent now."),
    ('{"assistant": "weather"}', "You are with the weather agent now."),
    ("[TOOL_RESULTS]", "The answer is 36."),
    ("weather in Paris and Rome", call("get_weather", city="Paris") + call("get_weather", city="Rome")),
    ("weather in Paris", call("get_weather", city="Paris")),
    ("weather like in San Francisco", call("get_weather", location="San Francisco, CA")),
    ("3 multiplied by 12", call("multiply", a=3, b=12)),
    ("hand me over", call("transfer_to_weather")),
    ("haiku", HAIKU),
)

_WRITE: Final = "echo agent-was-here > greeting.txt; cat greeting.txt"

#: The same for the model that thinks.
THINKING_ANSWERS: Final = (
    ("agent-was-here", thought("It is written.", "The greeting is written.")),
    ("greeting with exec_command", thought("I write it.", hermes_call("exec_command", cmd=_WRITE))),
    ("greeting with bash", thought("I write it.", hermes_call("bash", command=_WRITE, description="Write it"))),
    ("15 degrees", thought("The tool has told.", "It is 15 degrees in Paris.")),
    ("weather in Paris", thought("I look it up.", hermes_call("get_weather", city="Paris"))),
    ("weather like in San Francisco", thought("I ask.", hermes_call("get_weather", location="San Francisco, CA"))),
    ("haiku", thought("Three lines.", HAIKU)),
)
