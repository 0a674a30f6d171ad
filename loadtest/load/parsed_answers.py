"""Whether the answers of the benchmark of parsing are taken apart: it is to measure thoughts and calls, not text."""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from loadtest.load.processes import BenchError
from loadtest.load.stack import Stack, Variant


class Told(NamedTuple):
    """What an answer has of each kind, however it came. `calls` are the tools' names and arguments in one."""

    text: str
    reasoning: str
    calls: str


#: The field of `Told` that answers to a variant's requests have, and no other.
_KINDS: Final[Mapping[Variant, str]] = MappingProxyType({"parsed": "text", "thinking": "reasoning", "calling": "calls"})
#: The variants that need a stack whose answers are taken apart.
PARSED: Final = tuple(_KINDS)


def require_parsed_answers(stack: Stack, bodies: Mapping[Variant, bytes]) -> None:
    """Ask each of them once. Raises BenchError where a request fails or its answer is not of the variant's kind."""
    for variant, body in bodies.items():
        found = told(stack.ask(body, variant))
        kinds = [kind for kind, said in found._asdict().items() if said]
        if kinds != [_KINDS[variant]]:
            raise BenchError(f"answers of the load {variant!r} are not {_KINDS[variant]} alone: {found}")


def told(answer: bytes) -> Told:
    """What an answer's body says, of a stream or as a whole."""
    said = list(_messages(answer))
    calls = [call["function"] for message in said for call in message.get("tool_calls") or ()]
    return Told(
        "".join(message.get("content") or "" for message in said),
        "".join(message.get("reasoning_content") or "" for message in said),
        "".join(call.get("name", "") + call.get("arguments", "") for call in calls),
    )


def _messages(answer: bytes) -> Iterator[dict[str, Any]]:
    """The whole message, or the pieces of a streamed one."""
    events = [line.removeprefix(b"data: ") for line in answer.splitlines() if line.startswith(b"data: {")]
    for event in events or [answer]:
        for choice in json.loads(event).get("choices", ()):
            yield choice.get("delta") or choice.get("message") or {}
