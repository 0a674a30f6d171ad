"""Requests with tools, read for a model without a fleet."""

from types import SimpleNamespace
from typing import Any

import orjson

from gateway.api.openai.body_reading import Reading, read_body
from gateway.api.openai.chat import CHAT
from gateway.config.media import Media
from gateway.inference.generate_request import GenerateRequest
from gateway.models.media_rules import OPENAI
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.plain import PlainParser
from observability.record import RequestRecord
from tests.harness import tekken

HELLO = [{"role": "user", "content": "Hello!"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tool(name: str = "find", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA} | fields}


class Parser(PlainParser):
    """Knows what it was made of."""

    __slots__ = ("prompt_end", "use")

    def __init__(self, use: ToolUse | None, prompt_end: str | None) -> None:
        self.use, self.prompt_end = use, prompt_end


class Format:
    """An `OutputFormat`; `tag` is what guides strict tools, and those beside a format."""

    name = "fake"
    marks: frozenset[str] = frozenset()

    def __init__(self, *, calls: bool = True, tag: str | None = None) -> None:
        self.calls, self._tag = calls, tag

    def parser(self, use: ToolUse | None, prompt_end: str | None, *, whole: bool = False) -> Parser:
        del whole
        return Parser(use, prompt_end)

    def structural_tag(self, use: ToolUse) -> str | None:
        return self._tag if any(tool.strict for tool in use.tools) else None

    def calls_or_answer_tag(self, use: ToolUse, answer: dict[str, Any]) -> str | None:
        return None if self._tag is None else orjson.dumps([self._tag, answer, use.parallel]).decode()


class ChatFormat:
    """One that reads what it is told to."""

    def __init__(self, *reads: str, calls: bool = True) -> None:
        self.reads, self.calls = frozenset(reads), calls


def model_of(output: Format | None = None, chat_format: Any = None) -> Any:
    loaded = tekken()
    return SimpleNamespace(
        tokenizer=loaded.tokenizer,
        chat_format=chat_format or loaded.chat_format,
        output=output,
        media=Media(),
        relays=False,
        opaque=False,
        media_rule=OPENAI,
    )


CALLER: Any = None


def read(**fields: Any) -> Reading:
    return read_body(CHAT, orjson.dumps({"model": "m", "messages": HELLO} | fields))


def asked(model: Any = None, **fields: Any) -> GenerateRequest:
    """The request that a body becomes."""
    record = RequestRecord("id", "chat", 0.0, 0.0)
    return read(**fields).request(CALLER, model or model_of(Format()), record)
