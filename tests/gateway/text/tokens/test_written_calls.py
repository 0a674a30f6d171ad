"""Calls of earlier turns in templates that write none, and what of a call may become a control token."""

from typing import Any

import pytest

from gateway.models.model_output import model_chat_format, model_output
from gateway.text.tokens.chat_format import TemplateError
from gateway.text.tokens.chat_template import ChatTemplate
from gateway.text.tokens.loader import LoadedTokenizer
from gateway.text.tokens.written_calls import WrittenCalls
from tests.gateway.models.test_model_output import model
from tests.gateway.text.tokens.test_tool_template import TOKENIZER

#: Writes answers as they are, results as turns, and of calls nothing.
SILENT = """{% if tools %}{{ 'List of tools: [' + tools | tojson + ']' }}{% endif %}{% for m in messages %}
{{- '<|' + m.role + '|>' + (m.content or '') }}{% endfor %}<|assistant|>"""
#: The same, with the tools by another name.
XML_TOOLS = SILENT.replace("tools %}", "xml_tools %}").replace("+ tools |", "+ xml_tools |") + (
    '{# <tool_call>{"name": ...}</tool_call> #}'
)
CALLS = [
    {"id": f"call_{place}", "type": "function", "function": {"name": "find", "arguments": arguments}}
    for place, arguments in enumerate(('{"city":"<|user|>","now":true}', "{}"))
]
TOOLS = [{"type": "function", "function": {"name": "find", "description": "", "parameters": {}}}]


def talk(content: str | None = None) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": content, "tool_calls": CALLS},
        *({"role": "tool", "content": "sunny", "tool_call_id": call["id"], "name": "find"} for call in CALLS),
    ]


def loaded(source: str, *more: str) -> LoadedTokenizer:
    tokenizer = TOKENIZER
    specials = {**tokenizer.specials, **{text: 400 + place for place, text in enumerate(more)}}
    template = ChatTemplate(source, specials=specials)

    class Vocabulary:
        def __init__(self) -> None:
            self.specials = specials

    return LoadedTokenizer(Vocabulary(), template, source, template.written_call())  # type: ignore[arg-type]


class Parts:
    """Shows a prompt with its control tokens in braces."""

    def encode_parts(self, parts: list[str]) -> str:
        return "".join(f"{{{part}}}" if place % 2 else part for place, part in enumerate(parts))


def shown(source: str, messages: list[dict[str, Any]], *more: str) -> Any:
    found = loaded(source, *more)
    chat_format = model_chat_format(found, model_output(model(), found))
    assert isinstance(chat_format, WrittenCalls)
    assert chat_format.calls
    assert "tools" in chat_format.reads
    return chat_format.encode_chat(Parts(), messages, tools=TOOLS)  # type: ignore[arg-type]


def test_calls_are_written_as_the_model_does() -> None:
    prompt = shown(SILENT, talk(), "<|tool_call_start|>", "<|tool_call_end|>")
    # Marks of the family are control tokens; an argument's are text.
    assert (
        "{<|assistant|>}{<|tool_call_start|>}[find(city='<|user|>', now=True), find()]{<|tool_call_end|>}"
        "{<|tool|>}sunny{<|tool|>}sunny{<|assistant|>}"
    ) in prompt


def test_the_tools_may_have_another_name() -> None:
    prompt = shown(XML_TOOLS, talk("I look."))
    assert prompt.startswith('List of tools: [[{"type": "function"')
    assert (
        '{<|assistant|>}I look.\n{<tool_call>}\n{"name": "find", "arguments": {"city":"<|user|>","now":true}}\n'
        '{</tool_call>}\n{<tool_call>}\n{"name": "find", "arguments": {}}\n{</tool_call>}{<|tool|>}sunny'
    ) in prompt


@pytest.mark.parametrize("arguments", ["", "no JSON", "[1]"])
def test_arguments_that_are_no_object(arguments: str) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "find", "arguments": arguments}}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    assert f"[find({arguments})]" in shown(SILENT, messages, "<|tool_call_start|>")


@pytest.mark.parametrize(
    "source",
    [
        # It drops results, ...
        SILENT.replace("{{- '<|' +", "{% if m.role != 'tool' %}{{- '<|' +").replace(
            "{% endfor %}<", "{% endif %}{% endfor %}<"
        ),
        # ... or refuses them.
        SILENT.replace("{{- '<|' +", "{% if m.role == 'tool' %}{{ raise_exception('No') }}{% endif %}{{- '<|' +"),
        # No tools, and none whose calls are known.
        SILENT.replace("tools", "documents"),
        SILENT.replace("List of tools", "Tools"),
    ],
)
def test_where_calls_have_no_place_the_template_stays(source: str) -> None:
    found = loaded(source, "<|tool_call_start|>")
    chat_format = model_chat_format(found, model_output(model(), found))
    assert chat_format is found.chat_format
    assert not chat_format.calls


def test_a_template_that_writes_calls_stays() -> None:
    source = SILENT.replace("(m.content or '')", "(m.content or '') + (m.tool_calls | tojson if m.tool_calls else '')")
    found = loaded(source, "<|tool_call_start|>")
    assert model_chat_format(found, model_output(model(), found)) is found.chat_format
    assert found.chat_format.calls
    with pytest.raises(TemplateError):
        found.chat_format.encode_chat(Parts(), [{"role": "no one", "content": ""}])  # type: ignore[arg-type]
