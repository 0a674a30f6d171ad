"""Checks that the parsing benchmark's answers are really parsed into reasoning and tool calls."""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from loadtest.load.processes import BenchError
from loadtest.load.stack import Stack, Variant


class AnswerParts(NamedTuple):
    """An answer's content by kind, streamed or not. `calls` are the tools' names and arguments joined."""

    text: str
    reasoning: str
    calls: str


#: The only field of `AnswerParts` that answers to a variant's requests have.
_KINDS: Final[Mapping[Variant, str]] = MappingProxyType({"parsed": "text", "thinking": "reasoning", "calling": "calls"})
#: The variants that need a stack that parses answers.
PARSED: Final = tuple(_KINDS)


def require_parsed_answers(stack: Stack, bodies: Mapping[Variant, bytes]) -> None:
    """Send each body once. Raises BenchError if a request fails or its answer is not of the variant's kind."""
    for variant, body in bodies.items():
        found = answer_parts(stack.ask(body, variant))
        kinds = [kind for kind, said in found._asdict().items() if said]
        if kinds != [_KINDS[variant]]:
            raise BenchError(f"answers of the load {variant!r} are not {_KINDS[variant]} alone: {found}")


def answer_parts(answer: bytes) -> AnswerParts:
    """Read an answer's content from its body, streamed or not."""
    said = list(_messages(answer))
    calls = [call["function"] for message in said for call in message.get("tool_calls") or ()]
    return AnswerParts(
        "".join(message.get("content") or "" for message in said),
        "".join(message.get("reasoning_content") or "" for message in said),
        "".join(call.get("name", "") + call.get("arguments", "") for call in calls),
    )


def _messages(answer: bytes) -> Iterator[dict[str, Any]]:
    """Yield the message, or the deltas of a streamed one."""
    events = [line.removeprefix(b"data: ") for line in answer.splitlines() if line.startswith(b"data: {")]
    for event in events or [answer]:
        for choice in json.loads(event).get("choices", ()):
            yield choice.get("delta") or choice.get("message") or {}
