"""Translate a conversation of the Messages API to chat messages.

A message here may hold texts, images, tool calls and results at once. A chat has one message for each result, directly
after the calls; the rest of such a message follows them.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from gateway.api.anthropic.content_blocks import shown_parts, text_part
from gateway.api.anthropic.error_paths import Origin
from gateway.api.anthropic.messages_body import (
    Block,
    DocumentBlock,
    ImageBlock,
    Message,
    SearchResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from gateway.api.anthropic.messages_decoding import echo, invalid
from protos.errors import UnsupportedParameter

_SHOWN: Final = (TextBlock, ImageBlock, DocumentBlock, SearchResultBlock)
_MOST_NAMED: Final = 8


class Part(NamedTuple):
    """A part of a chat message, and the place that it comes from."""

    value: dict[str, Any]
    place: str


class _Turn(NamedTuple):
    """A turn: all that one side says before the other, in one message or more."""

    role: str
    place: str
    blocks: list[tuple[str, Block]]


class Conversation:
    """The chat's messages, each with its origin."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.origins: list[Origin] = []

    def add_system(self, content: str | list[TextBlock] | None, place: str) -> None:
        """Add the system prompt, or a system message within the conversation."""
        if isinstance(content, str):
            content = [TextBlock(text=content)] if content else []
        if content:
            self._say(
                "system", [Part(text_part(block.text), f"{place}.{at}") for at, block in enumerate(content)], place
            )

    def add_messages(self, messages: Sequence[Message]) -> None:
        """Add messages. Raises InvalidRequest for unmatched calls and results, and for untranslatable content."""
        if messages[-1].role == "assistant":
            raise UnsupportedParameter(
                "messages: The last message has to be the user's: answers cannot be begun for a model here.",
                param=f"messages.{len(messages) - 1}.role",
            )
        calling: _Turn | None = None
        for turn in _turns(messages):
            if turn.role == "assistant":
                self._add_assistant_turn(turn)
                calling = turn
                continue
            results = [(place, block) for place, block in turn.blocks if isinstance(block, ToolResultBlock)]
            _check_results(calling, results)
            if turn.role == "system":
                self.add_system([block for _, block in turn.blocks if isinstance(block, TextBlock)], turn.place)
            else:
                self._add_user_turn(turn, results)
            calling = None

    def _add_user_turn(self, turn: _Turn, results: list[tuple[str, ToolResultBlock]]) -> None:
        parts: list[Part] = []
        for place, result in results:
            result_parts = list(_result_parts(result, place))
            texts = [part.value["text"] for part in result_parts if part.value["type"] == "text"]
            # Results in a chat are text; their images and documents go into the user's message.
            parts += [part for part in result_parts if part.value["type"] != "text"]
            text = "\n".join(texts)
            text = f"Error: {text}" if result.is_error else text
            self.messages.append({"role": "tool", "tool_call_id": result.tool_use_id, "content": text})
            self.origins.append(Origin(place))
        for place, block in turn.blocks:
            if isinstance(block, _SHOWN):
                parts += [Part(value, place) for value in shown_parts(block, place)]
            elif not isinstance(block, ToolResultBlock):
                raise invalid(place, f"'{_name(block)}' is not the user's to say.")
        if parts:
            self._say("user", parts, turn.place)
        elif not results:
            raise invalid(f"{turn.place}.content", "A user's message must not be empty.")

    def _add_assistant_turn(self, turn: _Turn) -> None:
        texts, thoughts, calls, call_places, ids = [], [], [], [], set()
        for place, block in turn.blocks:
            match block:
                case TextBlock(text=text):
                    texts.append(text)
                case ThinkingBlock(thinking=thought):
                    thoughts.append(thought)
                case ToolUseBlock():
                    if block.id in ids:
                        raise invalid(f"{place}.id", f"There is more than one call '{echo(block.id)}'.")
                    ids.add(block.id)
                    arguments = msgspec.json.encode(block.input).decode()
                    function = {"name": block.name, "arguments": arguments}
                    calls.append({"id": block.id, "type": "function", "function": function})
                    call_places.append(place)
                case ImageBlock() | DocumentBlock() | SearchResultBlock() | ToolResultBlock():
                    raise invalid(place, f"'{_name(block)}' is not the assistant's to say.")
        text = "\n".join(filter(None, texts))
        message: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None}
        if thought := "\n".join(filter(None, thoughts)):
            message["reasoning_content"] = thought
        if calls:
            message["tool_calls"] = calls
        self.messages.append(message)
        self.origins.append(Origin(turn.place, calls=tuple(call_places)))

    def _say(self, role: str, parts: list[Part], place: str) -> None:
        """Add a message; its texts are joined to one string, which every chat template takes."""
        content: str | list[dict[str, Any]]
        if all(part.value["type"] == "text" for part in parts):
            content = "\n".join(part.value["text"] for part in parts)
        else:
            content = [part.value for part in parts]
        self.messages.append({"role": role, "content": content})
        self.origins.append(Origin(place, tuple(part.place for part in parts)))


def _turns(messages: Sequence[Message]) -> Iterator[_Turn]:
    """Join consecutive messages of one side to turns."""
    turn: _Turn | None = None
    for at, message in enumerate(messages):
        place = f"messages.{at}"
        if turn is not None and turn.role != message.role:
            yield turn
            turn = None
        if turn is None:
            turn = _Turn(message.role, place, [])
        turn.blocks.extend(_blocks(message, place))
    if turn is not None:
        yield turn


def _blocks(message: Message, place: str) -> Iterator[tuple[str, Block]]:
    if isinstance(message.content, str):
        if message.content:
            yield f"{place}.content", TextBlock(text=message.content)
        return
    for at, block in enumerate(message.content):
        where = f"{place}.content.{at}"
        if message.role == "system" and not isinstance(block, TextBlock):
            raise invalid(where, "A system message has text alone.")
        if not isinstance(block, TextBlock) or block.text:
            yield where, block


def _check_results(calling: _Turn | None, results: list[tuple[str, ToolResultBlock]]) -> None:
    """Check that every call has one result in the next turn, and every result its call."""
    calls = [block.id for _, block in calling.blocks if isinstance(block, ToolUseBlock)] if calling is not None else []
    open_calls = dict.fromkeys(calls)
    for place, result in results:
        if result.tool_use_id not in open_calls:
            shown = echo(result.tool_use_id)
            raise invalid(
                f"{place}.tool_use_id", f"'{shown}' is no call of the message before, or one that has its result."
            )
        del open_calls[result.tool_use_id]
    if open_calls and calling is not None:
        missing = ", ".join(f"'{echo(call)}'" for call in list(open_calls)[:_MOST_NAMED])
        raise invalid(calling.place, f"Calls without a tool_result in the message that follows: {missing}.")


def _result_parts(result: ToolResultBlock, place: str) -> Iterable[Part]:
    if result.content is None or isinstance(result.content, str):
        return [Part(text_part(result.content or ""), f"{place}.content")]
    return chain.from_iterable(
        (Part(value, f"{place}.content.{at}") for value in shown_parts(block, f"{place}.content.{at}"))
        for at, block in enumerate(result.content)
    )


def _name(block: Block) -> str:
    return str(block.__struct_config__.tag)
