import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.parsing.delta import CallArguments, Text
from gateway.text.parsing.families.family_registry import output_format, recognised
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from tests.gateway.text.parsing.answers import SINGLE, USE, Answer, Call, answer, fed, joined

CITY = '{"city": "Paris"}'
PARIS = Call("get_weather", CITY)
PROMPT = "\n\n>>>"
SAMPLE = '{"probe_key": "probe value", "probe_flag": true}'


def parser(name: str, prompt_end: str = PROMPT, use: ToolUse | None = USE) -> OutputParser:
    form = output_format(name, None)
    assert form is not None
    made = form.parser(use, prompt_end)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<function=get_weather>{CITY}</function>", Answer(calls=(PARIS,))),
        (f"I look. <function=get_weather>\n{CITY}\n</function>\nDone.", Answer("I look. Done.", "", (PARIS,))),
        (
            f"<function=get_weather>{CITY}</function><function=time_now>{{}}</function>",
            Answer(calls=(PARIS, Call("time_now", "{}"))),
        ),
        # The closing tag may be missing, and may stand in a string.
        (f"<function=get_weather>{CITY}", Answer(calls=(PARIS,))),
        (
            '<function=search>{"query": "</function>"}</function>',
            Answer(calls=(Call("search", '{"query": "</function>"}'),)),
        ),
        ("<function=get_weather>\n<parameter=city>", Answer("<function=get_weather>\n<parameter=city>")),
        (f"<function=erase>{CITY}</function>", Answer(f"<function=erase>{CITY}</function>")),
        ("a <function", Answer("a <function")),
        ("<function=get_weather>", Answer("<function=get_weather>")),
    ],
)
def test_elements_of_json(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser("functionary_v31"), *pieces) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all\nIt is 4.", Answer("It is 4.")),
        (f"get_weather\n{CITY}", Answer(calls=(PARIS,))),
        (
            f"all\nI look.>>>get_weather\n{CITY}>>>time_now\n{{}}",
            Answer("I look.", "", (PARIS, Call("time_now", "{}"))),
        ),
        (f"get_weather\n{CITY}>>>all\nNow.", Answer("Now.", "", (PARIS,))),
        (f"get_weather\n{CITY[:-4]}", Answer(calls=(Call("get_weather", CITY[:-4]),))),
        ("all\n>>> x = 1\n>>>", Answer(">>> x = 1\n>>>")),
        (f"erase\n{CITY}", Answer(f"erase\n{CITY}")),
        ("get_weather\nis a tool", Answer("get_weather\nis a tool")),
        ("all", Answer("all")),
        # A guided answer has no recipient.
        ('{"a": 1}', Answer('{"a": 1}')),
    ],
)
def test_messages_to_recipients(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser("functionary_v32"), *pieces) == expected
    marked = answer(parser("functionary_v32", "\n\n"), *f">>>{text}")
    assert marked.calls == expected.calls
    assert marked.text in (expected.text, f">>>{expected.text}")


def test_plain_answers_have_a_recipient_too() -> None:
    form = output_format("functionary_v32", None)
    assert form is not None
    plain = form.parser(None, PROMPT)
    assert plain is not None
    assert answer(plain, "al", "l\nHi") == Answer("Hi")
    assert plain.flow() == Text("")


@pytest.mark.parametrize("name", ["functionary_v31", "functionary_v32"])
def test_pieces_flow_as_they_come(name: str) -> None:
    streaming = parser(name)
    streaming.feed({"functionary_v31": "<function=search>", "functionary_v32": "search\n"}[name] + '{"query": "a ')
    assert streaming.flow() == CallArguments(0, "")
    assert streaming.feed("b") == [CallArguments(0, "b")]


def test_only_one_call() -> None:
    assert answer(parser("functionary_v32", use=SINGLE), *f"get_weather\n{CITY}>>>time_now\n{{}}") == Answer(
        calls=(PARIS,)
    )


@given(
    st.text("a<|é\n"),
    st.lists(st.dictionaries(st.text(), st.text(), max_size=2), max_size=3),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_however_an_answer_is_cut_it_is_taken_apart(text: str, calls: list[dict[str, str]], cuts: list[int]) -> None:
    for name, before, opening, closing in (
        ("functionary_v31", "", "<function=search>", "</function>"),
        ("functionary_v32", "all\n", ">>>search\n", ""),
    ):
        whole = before + text + "".join(opening + orjson.dumps(one).decode() + closing for one in calls)
        places = sorted({min(cut, len(whole)) for cut in cuts})
        pieces = [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]
        got = answer(parser(name), *pieces)
        assert got.text == text
        assert [orjson.loads(one.arguments) for one in got.calls] == calls
        assert joined(fed(parser(name), pieces)) == joined(fed(parser(name), [whole]))


@pytest.mark.parametrize(
    ("template", "written", "expected"),
    [
        (
            '<function=example>{"name": "value"}</function>',
            f"<function=probe_call>{SAMPLE}</function><|eom|>",
            ("functionary_v31", None),
        ),
        (
            "Respond in this format:\n>>>${recipient}\n${content}",
            f"probe_call\n{SAMPLE}<|eot|>",
            ("functionary_v32", "functionary_v32"),
        ),
        ("Respond in this format:\n>>>${recipient}\n${content}", f"probe_call: {SAMPLE}<|eot|>", (None, None)),
    ],
)
def test_templates_that_write_them(template: str, written: str, expected: tuple[str | None, str | None]) -> None:
    assert recognised(template, (), written)[:2] == expected
