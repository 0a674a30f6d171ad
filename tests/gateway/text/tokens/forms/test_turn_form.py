"""Turns that a chat template would lose: each reaches the model in another place, whatever the template does."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.tokens.chat_template import ChatTemplate
from gateway.text.tokens.forms.turn_form import TurnForm

CALLS = "{% for c in m.tool_calls %}[{{ c.function.name }}:{{ c.function.arguments | tojson }}]{% endfor %}"
WHOLE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% if m.tool_calls %}CALLS{% endif %}{% endfor %}"
#: Leaves out text beside calls.
CALLS_ALONE = WHOLE.replace("{{ m.content or '' }}", "{{ (m.content or '') if not m.tool_calls else '' }}")
#: Leaves out calls after the first.
FIRST_CALL = WHOLE.replace("CALLS", CALLS.replace("m.tool_calls", "m.tool_calls[:1]"))
SINGLE = """{% for m in messages if m.tool_calls and m.tool_calls | length > 1 %}{{ raise_exception('one') }}
{%- endfor %}"""
#: Demands that users and answers take turns; those with calls do not count.
TURNS = """{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == 'user' or (m.role == 'assistant' and not
m.tool_calls) %}{% if (m.role == 'user') != (ns.n % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}
{%- set ns.n = ns.n + 1 %}{% endif %}{% endfor %}"""
#: Reads text in parts alone, as templates of models for images do.
PARTS = """{% for m in messages %}<|{{ m.role }}|>{% for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}
{%- endfor %}"""


def call(number: int) -> dict[str, Any]:
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": f"f{number}", "arguments": f'{{"x": {number}}}'},
    }


def said(role: str, content: str | None, *numbers: int, **more: Any) -> dict[str, Any]:
    calls = {"tool_calls": [call(number) for number in numbers]} if numbers else {}
    return {"role": role, "content": content, **calls, **more}


def result(number: int) -> dict[str, Any]:
    return {"role": "tool", "content": f"r{number}", "tool_call_id": f"call_{number}", "name": f"f{number}"}


ASKED = said("user", "Hi")


def rendered(source: str, *messages: Mapping[str, Any]) -> str:
    return ChatTemplate(source.replace("CALLS", CALLS), specials={}).render(messages)


def test_a_template_that_writes_all_is_given_all() -> None:
    messages = [ASKED, said("assistant", "Look", 1, 2), result(1), result(2), said("assistant", "So"), ASKED, ASKED]
    assert rendered(WHOLE, *messages) == (
        '<|user|>Hi<|assistant|>Look[f1:{"x": 1}][f2:{"x": 2}]<|tool|>r1<|tool|>r2<|assistant|>So<|user|>Hi<|user|>Hi'
    )


def test_text_beside_calls_becomes_a_message() -> None:
    messages = [ASKED, said("assistant", "Look", 1), result(1), said("assistant", "So")]
    assert (
        rendered(CALLS_ALONE, *messages)
        == '<|user|>Hi<|assistant|>Look<|assistant|>[f1:{"x": 1}]<|tool|>r1<|assistant|>So'
    )


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (
            [
                said("assistant", "Look", 1),
                result(1),
                said("assistant", "And", 2),
                result(2),
                said("assistant", "So"),
                ASKED,
            ],
            '<|assistant|>[f1:{"x": 1}]<|tool|>r1<|assistant|>[f2:{"x": 2}]<|tool|>r2'
            "<|assistant|>Look\n\nAnd\n\nSo<|user|>Hi",
        ),
        ([said("assistant", "Look", 1), result(1)], '<|assistant|>Look<|assistant|>[f1:{"x": 1}]<|tool|>r1'),
        (
            [said("assistant", "Look", 1), result(1), ASKED],
            '<|assistant|>[f1:{"x": 1}]<|tool|>r1<|assistant|>Look<|user|>Hi',
        ),
        (
            [said("assistant", None, 1), result(1), said("assistant", "And", 2), result(2)],
            '<|assistant|>[f1:{"x": 1}]<|tool|>r1<|assistant|>And<|assistant|>[f2:{"x": 2}]<|tool|>r2',
        ),
    ],
)
def test_where_it_may_not_be_one_it_joins_the_answer(messages: list[dict[str, Any]], expected: str) -> None:
    assert rendered(TURNS + CALLS_ALONE, ASKED, *messages) == f"<|user|>Hi{expected}"


@pytest.mark.parametrize("source", [FIRST_CALL, SINGLE + WHOLE])
@pytest.mark.parametrize("swapped", [False, True])
def test_calls_come_one_by_one_with_their_results(source: str, swapped: bool) -> None:
    results = [result(2), result(1)] if swapped else [result(1), result(2)]
    text = rendered(source, ASKED, said("assistant", "Look", 1, 2), *results, said("assistant", "So", 3), result(3))
    assert text == (
        '<|user|>Hi<|assistant|>Look[f1:{"x": 1}]<|tool|>r1<|assistant|>[f2:{"x": 2}]<|tool|>r2'
        '<|assistant|>So[f3:{"x": 3}]<|tool|>r3'
    )


def test_an_id_may_come_again_in_a_later_turn() -> None:
    messages = [ASKED, said("assistant", None, 1, 2), result(1), result(2), said("assistant", None, 1), result(1)]
    assert rendered(FIRST_CALL, *messages).endswith('[f1:{"x": 1}]<|tool|>r1')


def test_neighbours_of_a_role_are_merged_where_they_are_refused() -> None:
    messages = [
        ASKED,
        said("user", "There"),
        said("assistant", "Yes"),
        said("assistant", "No"),
        said("user", ""),
        ASKED,
    ]
    assert rendered(TURNS + WHOLE, *messages) == "<|user|>Hi\n\nThere<|assistant|>Yes\n\nNo<|user|>Hi"


def test_text_is_given_in_parts_where_nothing_else_is_written() -> None:
    messages = [said("system", "Be brief."), ASKED, said("assistant", "Yes"), ASKED]
    assert rendered(PARTS, *messages) == "<|system|>Be brief.<|user|>Hi<|assistant|>Yes<|user|>Hi"
    assert rendered(PARTS, said("developer", "Be brief."), ASKED).endswith("Be brief.<|user|>Hi")


def test_a_thought_that_may_not_be_beside_text_stays_with_the_call() -> None:
    source = CALLS_ALONE.replace(
        "<|{{ m.role }}|>",
        "{% if m.tool_calls and m.content and m.thinking %}{{ raise_exception('both') }}{% endif %}<|{{ m.role }}|>"
        "{% if m.thinking %}({{ m.thinking }}){% endif %}",
    )
    messages = [ASKED, said("assistant", "Look", 1, reasoning_content="Hm"), result(1)]
    assert rendered(source, *messages) == '<|user|>Hi<|assistant|>Look<|assistant|>(Hm)[f1:{"x": 1}]<|tool|>r1'


TALKS = st.lists(
    st.one_of(
        st.just([ASKED]),
        st.just([said("assistant", "Yes")]),
        st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True).map(
            lambda numbers: [said("assistant", f"T{numbers[0]}", *numbers), *map(result, numbers)]
        ),
    ),
    max_size=5,
).map(lambda parts: [message for part in parts for message in part])


@given(TALKS, st.builds(TurnForm, st.booleans(), st.booleans(), st.booleans(), st.booleans()))
def test_nothing_is_lost_and_nothing_said_twice(messages: list[dict[str, Any]], form: TurnForm) -> None:
    def words(of: list[Mapping[str, Any]]) -> list[str]:
        texts = [word for one in of for word in (one["content"] or "").split("\n\n") if word]
        return sorted([*texts, *(each["id"] for one in of for each in one.get("tool_calls", ()))])

    assert words(form.arranged(messages)) == words([*messages])
