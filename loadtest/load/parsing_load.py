"""The load of the parsing benchmark: requests and the scripted answers of the engine."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from protos.script import Line
from replicas.engines.answer_lengths import corpus_sentences

#: The model's `output` in the configuration: the formats of the answers below.
OUTPUT: Final = "{tools: hermes, reasoning: think}"
#: Beginnings of prompts that are answered with reasoning, or with a tool call.
_THINK: Final = "Think it over first."
_CALL: Final = "Write it down with the tool."
#: Short, so that answers of 14 tokens include the name.
TOOL: Final = "note"
_TOOL: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": TOOL,
        "description": "Writes a text down.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
}
#: Characters of an answer; far more than the 128 tokens at which answers are cut.
_CHARACTERS: Final = 4000


def script() -> bytes:
    """Return the answer script of the replicas: reasoning and a tool call, both cut before their end."""
    # The words of the other answers, so that tokens have the same length in all of them.
    text = " ".join(corpus_sentences())[:_CHARACTERS]
    arguments = msgspec.json.encode({"text": text}).decode()
    lines = [
        Line(_THINK, f"<think>\n{text}\n</think>\n\nYes."),
        Line(_CALL, f'<tool_call>\n{{"name": "{TOOL}", "arguments": {arguments}}}\n</tool_call>'),
    ]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def prompt_and_members(variant: str, prompt: str) -> tuple[str, dict[str, object]]:
    """Return a variant's prompt, and further members of its bodies."""
    if variant == "thinking":
        return f"{_THINK} {prompt}", {}
    if variant == "calling":
        return f"{_CALL} {prompt}", {"tools": [_TOOL]}
    return prompt, {}
