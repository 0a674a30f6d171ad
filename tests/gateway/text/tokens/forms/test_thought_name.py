from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gateway.text.tokens.chat_template import ChatTemplate

TURN = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}THOUGHT{% endfor %}"


def rendered(thought: str, *messages: Mapping[str, Any]) -> str:
    chat: Sequence[Mapping[str, Any]] = messages or (
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes", "reasoning_content": "Hm"},
    )
    return ChatTemplate(TURN.replace("THOUGHT", thought), specials={}).render(chat)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking", "thought"])
@pytest.mark.parametrize("form", ["{{ m.NAME }}", "{{ m['NAME'] }}", "{{ m.get('NAME') or '' }}"])
def test_a_thought_is_given_by_the_name_that_the_template_reads(name: str, form: str) -> None:
    assert rendered(form.replace("NAME", name)).endswith("YesHm")


def test_one_name_is_enough() -> None:
    assert rendered("{{ m.reasoning_content or m.reasoning or m.thinking or '' }}").endswith("YesHm")
    assert rendered("{{ m.reasoning or '' }}{{ m.reasoning_content or '' }}").endswith("YesHm")


def test_a_template_may_write_thoughts_of_calls_alone() -> None:
    calls = "{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}"
    form = f"{{% if m.tool_calls %}}{{{{ m.thinking }}}}{calls}{{% endif %}}"
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = {"role": "user", "content": "Hi"}
    called = {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "Hm"}
    assert 'Hm{"name": "f"' in rendered(form, asked, called)
    assert "Hm" not in rendered(form)


def test_a_thought_may_be_a_part_of_the_content() -> None:
    source = """{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content }}{% else %}
{%- for part in m.content or [] %}{% if part.type == 'thinking' %}({{ part.thinking }}){% else %}{{ part.text }}
{%- endif %}{%- endfor %}{% endif %}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}
{%- endfor %}"""
    template = ChatTemplate(source, specials={})
    asked = {"role": "user", "content": "Hi"}
    said = {"role": "assistant", "content": "Yes", "reasoning_content": "Hm"}
    assert template.render([asked, said, asked]) == "<|user|>Hi<|assistant|>(Hm)Yes<|user|>Hi"
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    called = {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "Hm"}
    assert template.render([asked, called]) == '<|user|>Hi<|assistant|>(Hm){"name": "f", "arguments": {}}'
    assert template.render([asked, {"role": "assistant", "content": "Yes"}]) == "<|user|>Hi<|assistant|>Yes"


def test_a_template_without_thoughts_leaves_them_out() -> None:
    assert rendered("").endswith("Yes")
