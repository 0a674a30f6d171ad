"""Instructions at any place of a chat: what a template writes stays, and what it would lose is merged or moved."""

from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.tokens.chat_format import TemplateError
from gateway.text.tokens.forms.instruction_form import InstructionForm, find_instruction_form, missing

#: Templates by what they do with instructions.
EVERYWHERE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
FIRST = "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}" + (
    "{% for m in messages if m.role in ('user', 'assistant') %}{{ m.content }}{% endfor %}"
)
FIRST_OF_EITHER = FIRST.replace("== 'system'", "in ('system', 'developer')")
NOWHERE = "{% for m in messages if m.role in ('user', 'assistant') %}{{ m.content }}{% endfor %}"
STRICT = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ no() }}{% endif %}{{ m.content }}"
    "{% endfor %}"
)

#: Puts a system message before the last message, if a user has written it.
LAST = """{% for m in messages if m.role != 'system' %}{% if loop.last and m.role == 'user' and
messages[0].role == 'system' %}{{ messages[0].content }} {% endif %}{{ m.content }}{% endfor %}"""
#: Puts it before the first other message.
BEFORE = LAST.replace("loop.last and m.role == 'user'", "loop.first")


def form_of(source: str, *, developer: bool = False) -> InstructionForm:
    template = jinja2.Template(source)

    def render(messages: Any) -> str:
        try:
            return str(template.render(messages=messages))
        except jinja2.UndefinedError as error:
            raise TemplateError("no") from error

    return find_instruction_form(render, developer=developer)


@pytest.mark.parametrize(
    ("source", "developer", "form"),
    [
        (EVERYWHERE, False, InstructionForm(True, False, True, True)),
        (EVERYWHERE, True, InstructionForm(True, True, True, True)),
        (FIRST, True, InstructionForm(True, False, False, False)),
        (FIRST_OF_EITHER, True, InstructionForm(True, True, False, False)),
        (NOWHERE, True, InstructionForm(False, False, False, False)),
        (STRICT, False, InstructionForm(True, False, False, False)),
        (LAST, False, InstructionForm(True, False, False, False, alone=False, ended=False)),
        (BEFORE, False, InstructionForm(True, False, False, False, alone=False)),
    ],
)
def test_the_form_of_a_template(source: str, developer: bool, form: InstructionForm) -> None:
    assert form_of(source, developer=developer) == form


def chat(*said: str) -> list[dict[str, str]]:
    """Messages from `role text` each."""
    return [dict(zip(("role", "content"), one.split(" ", 1), strict=True)) for one in said]


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        (EVERYWHERE, ("developer A", "user B"), ("system A", "user B")),
        (EVERYWHERE, ("system A", "user B", "system C"), ("system A", "user B", "system C")),
        (FIRST, ("system A", "developer B", "user C"), ("system A\n\nB", "user C")),
        (FIRST, ("user A", "assistant B", "system C", "user D"), ("user A", "assistant B", "user C\n\nD")),
        (FIRST, ("user A", "system B"), ("user A\n\nB",)),
        (FIRST, ("user A", "assistant B", "system C"), ("user A", "assistant B", "user C")),
        (FIRST, ("system A", "user B", "system C", "assistant D", "user E"), None),
        (NOWHERE, ("system A", "developer B", "user C"), ("user A\n\nB\n\nC",)),
        (NOWHERE, ("system A",), ("user A",)),
        (LAST, ("system A",), ("user A",)),
        (LAST, ("system A", "user B", "tool C"), ("user A\n\nB", "tool C")),
        (LAST, ("system A", "system B", "user C"), ("system A\n\nB", "user C")),
        (LAST, ("system A", "user B", "assistant C", "system D"), ("system A", "user B", "assistant C", "user D")),
        (BEFORE, ("system A", "system B"), ("user A\n\nB",)),
    ],
)
def test_what_a_template_would_lose_is_merged_or_moved(
    source: str, before: tuple[str, ...], after: tuple[str, ...] | None
) -> None:
    arranged = form_of(source, developer=source is not EVERYWHERE).arranged(chat(*before))
    if after is None:
        after = ("system A", "user B", "assistant D", "user C\n\nE")
    assert arranged == chat(*after)


def test_what_is_written_as_it_is_fits() -> None:
    form, (system, user) = form_of(FIRST), chat("system A", "user B")
    assert form.fits([system, user], [system])
    assert not form.fits([user, system], [system])
    assert not form.fits([system, system, user], [system, system])
    developer = {**system, "role": "developer"}
    assert not form.fits([developer, user], [developer])
    (answer,) = chat("assistant C")
    assert form.fits([system, user, answer], [system])
    assert form.fits([system], [system])
    last = form_of(LAST)
    assert last.fits([system, user], [system])
    assert not last.fits([system, user, answer], [system])
    assert not last.fits([system], [system])


def test_an_instruction_that_is_not_there_is_found() -> None:
    messages = chat("system A1", "user B", "system  C1 ")
    assert missing(messages, "A1 B C1") is None
    assert missing(messages, "A1 B") == 2


_MESSAGES = st.lists(st.sampled_from(["system", "developer", "user", "assistant"]), min_size=1, max_size=6)


@given(_MESSAGES, st.sampled_from([EVERYWHERE, FIRST, FIRST_OF_EITHER, NOWHERE, LAST, BEFORE]), st.booleans())
def test_no_instruction_is_lost_and_none_is_said_twice(roles: list[str], source: str, developer: bool) -> None:
    messages = [{"role": role, "content": f"word{place}."} for place, role in enumerate(roles)]
    arranged = form_of(source, developer=developer).arranged(messages)
    rendered = jinja2.Template(source).render(messages=arranged)
    for message in messages:
        assert rendered.count(message["content"]) == 1
    if source != EVERYWHERE:
        assert all(one["role"] not in ("system", "developer") for one in arranged[1:])


def test_instructions_are_found_wherever_a_template_puts_them() -> None:
    said = [{"role": "system", "content": "Alder"}, {"role": "user", "content": "Birch"}]
    said += [{"role": "developer", "content": "Cedar"}, {"role": "system", "content": " Alder "}]
    assert missing(said, "Birch Cedar Alder Alder") is None
    assert missing(said, "Alder Birch Cedar") is None
    assert missing(said, "Alder Birch") == 2
    assert missing([], "") is None
