import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.parsing.delta import CallArguments, Reasoning, Text
from gateway.text.parsing.families.family_registry import output_format, recognised
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from tests.gateway.text.parsing.answers import SINGLE, USE, Answer, Call, answer, fed, joined

PROMPT = "<|begin|>assistant"
CITY = '{"city": "Paris"}'
PARIS = Call("get_weather", CITY, "a1b2c3d4e5")


def parser(prompt_end: str = PROMPT, use: ToolUse | None = USE) -> OutputParser:
    form = output_format("solar_open", "solar_open")
    assert form is not None
    made = form.parser(use, prompt_end)
    assert made is not None
    return made


def thought(text: str) -> str:
    return f"<|think|>{text}<|end|>{PROMPT}"


def call(name: str = "get_weather", arguments: str = CITY, given_id: str = "a1b2c3d4e5") -> str:
    return f"<|tool_call:begin|>{given_id}<|tool_call:name|>{name}<|tool_call:args|>{arguments}<|tool_call:end|>"


def tools(*calls: str) -> str:
    return f"<|tool_calls|>{''.join(calls)}<|calls|>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|content|>It is 4.<|end|>", Answer("It is 4.")),
        (thought("Hm.") + "<|content|>It is 4.<|flush|>", Answer("It is 4.", "Hm.")),
        (thought("Hm.") + thought("So.") + "<|content|>Yes", Answer("Yes", "Hm.\nSo.")),
        (thought("Hm.") + tools(call()), Answer("", "Hm.", (PARIS,))),
        (tools(call(), call("time_now", "{}", "zz")), Answer(calls=(PARIS, Call("time_now", "{}", "zz")))),
        (f"<|content|>I look.<|end|>{PROMPT}{tools(call())}", Answer("I look.", "", (PARIS,))),
        # A thought that is not ended, a call outside of a section, and one that is cut.
        ("<|think|>Hm." + tools(call()), Answer("", "Hm.", (PARIS,))),
        (call() + "<|end|>", Answer(calls=(PARIS,))),
        (tools(call())[:-31], Answer(calls=(Call("get_weather", '{"city": "Pa', "a1b2c3d4e5"),))),
        (tools(call("erase")), Answer(tools(call("erase")))),
        ("<|begin|>user<|content|>Hi", Answer("<|begin|>userHi")),
        # A guided answer has no turns.
        ('{"a": 1}', Answer('{"a": 1}')),
    ],
)
def test_turns(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces, ids=True) == expected


def test_the_prompt_may_begin_the_thought() -> None:
    assert answer(parser(f"{PROMPT}<|think|>"), "Hm.<|end|>", f"{PROMPT}<|content|>Yes<|end|>") == Answer("Yes", "Hm.")
    # One that it has ended is none of the answer's.
    assert answer(parser(f"{PROMPT}<|think|><|end|>{PROMPT}"), "<|content|>Yes<|end|>") == Answer("Yes")


def test_pieces_flow_as_they_come() -> None:
    streaming = parser()
    streaming.feed("<|think|>Hm")
    assert bool(streaming.thinking) is True
    assert streaming.flow() == Reasoning("")
    streaming.feed(f"<|end|>{PROMPT}<|content|>So")
    assert bool(streaming.thinking) is False
    assert streaming.flow() == Text("")
    streaming.feed(f"<|end|>{PROMPT}<|tool_calls|>{call()[:-20]}")
    assert streaming.flow() == CallArguments(0, "")


def test_only_one_call() -> None:
    assert answer(parser(use=SINGLE), *tools(call(), call("time_now", "{}", "zz")), ids=True) == Answer(calls=(PARIS,))


@given(
    st.text("a<|é\n"),
    st.text("a<|é\n"),
    st.lists(st.dictionaries(st.text(), st.text(), max_size=2), max_size=3),
    st.lists(st.integers(0, 400), max_size=6),
)
def test_however_an_answer_is_cut_it_is_taken_apart(
    hidden: str, text: str, calls: list[dict[str, str]], cuts: list[int]
) -> None:
    whole = f"{thought(hidden)}<|content|>{text}<|end|>"
    if calls:
        whole += PROMPT + tools(*(call(arguments=orjson.dumps(one).decode()) for one in calls))
    places = sorted({min(cut, len(whole)) for cut in cuts})
    pieces = [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]
    got = answer(parser(), *pieces)
    assert (got.text, got.reasoning) == (text, hidden)
    assert [orjson.loads(one.arguments) for one in got.calls] == calls
    assert joined(fed(parser(), pieces)) == joined(fed(parser(), [whole]))


def test_a_template_that_writes_it() -> None:
    template = "<|begin|>assistant<|think|>{{ m.reasoning }}<|end|><|tool_call:begin|>"
    written = "assistant" + tools(call("probe_call", '{"probe_key": "probe value", "probe_flag": true}'))
    assert recognised(template, (), written)[:2] == ("solar_open", "solar_open")
