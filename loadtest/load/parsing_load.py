"""What the benchmark of answers that are taken apart is made of: what is asked, and what an engine says to that."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from protos.script import Line
from replicas.engines.answer_lengths import corpus_sentences

#: The model's `output` in the configuration: the forms in which the answers below are written.
OUTPUT: Final = "{tools: hermes, reasoning: think}"
#: What a prompt begins with that is to be answered with a thought, or with a call.
_THINK: Final = "Think it over first."
_CALL: Final = "Write it down with the tool."
#: Short, so that the answers of 14 tokens come as far as the name.
TOOL: Final = "note"
_TOOL: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": TOOL,
        "description": "Writes a text down.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
}
#: Far more than the 128 tokens that answers are cut at.
_CHARACTERS: Final = 4000


def script() -> bytes:
    """The file of answers for the engine's replicas: a thought and a call, neither of which comes to its end."""
    # In the words of its other answers: tokens are as long in all of them.
    text = " ".join(corpus_sentences())[:_CHARACTERS]
    arguments = msgspec.json.encode({"text": text}).decode()
    lines = [
        Line(_THINK, f"<think>\n{text}\n</think>\n\nYes."),
        Line(_CALL, f'<tool_call>\n{{"name": "{TOOL}", "arguments": {arguments}}}\n</tool_call>'),
    ]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def asked(variant: str, prompt: str) -> tuple[str, dict[str, object]]:
    """What a variant's requests say instead of a prompt, and what else is in their bodies."""
    if variant == "thinking":
        return f"{_THINK} {prompt}", {}
    if variant == "calling":
        return f"{_CALL} {prompt}", {"tools": [_TOOL]}
    return prompt, {}
