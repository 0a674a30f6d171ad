import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.parsing.delta import CallArguments, Reasoning, Text
from gateway.text.parsing.families.family_registry import output_format, recognised
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from tests.gateway.text.parsing.answers import SINGLE, USE, Answer, Call, answer, fed, joined

PROMPT = '<|open|>message role="assistant"<|sep|>'
THINKING = f"{PROMPT}<|open|>think<|sep|>"
SPEAKING = f"{PROMPT}<|open|>response<|sep|>"
THOUGHT = "Hm, so.<|close|>think<|sep|>"
END = "<|close|>message<|sep|><|end_of_msg|>"
PARIS = Call("get_weather", '{"city": "Paris"}')


def parser(prompt_end: str = THINKING, use: ToolUse | None = USE) -> OutputParser:
    form = output_format("kimi_k3", "kimi_k3")
    assert form is not None
    made = form.parser(use, prompt_end)
    assert made is not None
    return made


def said(text: str) -> str:
    return f"<|open|>response<|sep|>{text}<|close|>response<|sep|>"


def argument(key: str, kind: str, value: str) -> str:
    return f'<|open|>argument key="{key}" type="{kind}"<|sep|>{value}<|close|>argument<|sep|>'


def call(name: str, *inside: str) -> str:
    return f'<|open|>call tool="{name}" index="1"<|sep|>{"".join(inside)}<|close|>call<|sep|>'


def tools(*calls: str) -> str:
    return f"<|open|>tools<|sep|>{''.join(calls)}<|close|>tools<|sep|>"


CITY = argument("city", "string", "Paris")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (THOUGHT + said("It is 4.") + END, Answer("It is 4.", "Hm, so.")),
        (THOUGHT + said("") + tools(call("get_weather", CITY)) + END, Answer("", "Hm, so.", (PARIS,))),
        (THOUGHT + said("I look.") + tools(call("get_weather", CITY)), Answer("I look.", "Hm, so.", (PARIS,))),
        (
            THOUGHT
            + tools(
                call("get_weather", CITY, argument("days", "number", "2"), argument("options", "object", '{"a":[1]}'))
            ),
            Answer("", "Hm, so.", (Call("get_weather", '{"city": "Paris", "days": 2, "options": {"a":[1]}}'),)),
        ),
        (
            THOUGHT + tools(call("time_now"), call("get_weather", CITY)),
            Answer("", "Hm, so.", (Call("time_now", "{}"), PARIS)),
        ),
        (
            THOUGHT
            + tools(call("get_weather", '<|open|>json type="object"<|sep|>{"city": "Paris"}<|close|>json<|sep|>')),
            Answer("", "Hm, so.", (PARIS,)),
        ),
        # Quotation marks of a key are written as entities, and what is no JSON is a string.
        (
            THOUGHT + tools(call("search", argument("a&quot;b&amp;c", "number", "five"))),
            Answer("", "Hm, so.", (Call("search", '{"a\\"b&c": "five"}'),)),
        ),
        # A thought that is not closed ends where the next channel begins.
        ("Hm, so." + said("Yes."), Answer("Yes.", "Hm, so.")),
        ("Hm, so." + tools(call("get_weather", CITY)), Answer("", "Hm, so.", (PARIS,))),
        ("Hm", Answer("", "Hm")),
        # Cut within a value, and a call that another tag ends.
        (
            THOUGHT + "<|open|>tools<|sep|>" + call("get_weather", CITY)[:-46],
            Answer("", "Hm, so.", (Call("get_weather", '{"city": "Par'),)),
        ),
        (
            THOUGHT + '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>' + CITY + said("Hi"),
            Answer("Hi", "Hm, so.", (PARIS,)),
        ),
        (
            THOUGHT + tools(call("erase", CITY), call("get_weather", CITY)) + said("Hi"),
            Answer(f"<|open|>tools<|sep|>{call('erase', CITY)}<|close|>tools<|sep|>Hi", "Hm, so.", (PARIS,)),
        ),
    ],
)
def test_channels(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == expected


@pytest.mark.parametrize(
    ("prompt_end", "text", "expected"),
    [
        (SPEAKING, "It is 4.<|close|>response<|sep|>" + END, Answer("It is 4.")),
        (SPEAKING, "<|close|>response<|sep|>" + tools(call("get_weather", CITY)), Answer(calls=(PARIS,))),
        (PROMPT, "<|open|>think<|sep|>" + THOUGHT + said("Yes."), Answer("Yes.", "Hm, so.")),
        # A guided answer has no channels.
        ("", '{"a": 1}', Answer('{"a": 1}')),
    ],
)
def test_beginnings(prompt_end: str, text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(prompt_end), *pieces) == expected


def test_pieces_flow_as_they_come() -> None:
    streaming = parser()
    assert bool(streaming.thinking) is True
    assert streaming.flow() == Reasoning("")
    streaming.feed(THOUGHT + "<|open|>response<|sep|>")
    assert bool(streaming.thinking) is False
    assert streaming.flow() == Text("")
    streaming.feed("<|close|>response<|sep|><|open|>tools<|sep|>" + call("search", CITY)[: len(call("search")) - 20])
    streaming.feed('<|open|>argument key="query" type="string"<|sep|>a ')
    assert streaming.flow() == CallArguments(0, "")
    assert streaming.feed("b") == [CallArguments(0, "b")]


def test_only_one_call() -> None:
    text = THOUGHT + tools(call("get_weather", CITY), call("time_now"))
    assert answer(parser(use=SINGLE), *text) == Answer("", "Hm, so.", (PARIS,))


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["get_weather", "search", "time_now"]),
        st.dictionaries(
            st.text('ab"&é', min_size=1),
            st.one_of(st.text(), st.integers(-(2**63), 2**63 - 1), st.none(), st.lists(st.text())),
            max_size=3,
        ),
    ),
    max_size=3,
)


@given(st.text("a<|é\n"), st.text("a<|é\n"), CALLS, st.lists(st.integers(0, 400), max_size=6))
def test_however_an_answer_is_cut_it_is_taken_apart(
    thought: str, text: str, calls: list[tuple[str, dict[str, object]]], cuts: list[int]
) -> None:
    def written(name: str, arguments: dict[str, object]) -> str:
        inside = [
            argument(
                key.replace("&", "&amp;").replace('"', "&quot;"),
                "string" if isinstance(value, str) else "object",
                value if isinstance(value, str) else orjson.dumps(value).decode(),
            )
            for key, value in arguments.items()
        ]
        return call(name, *inside)

    whole = f"{thought}<|close|>think<|sep|>{said(text)}"
    if calls:
        whole += tools(*(written(*one) for one in calls))
    places = sorted({min(cut, len(whole)) for cut in cuts})
    pieces = [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]
    got = answer(parser(), *pieces)
    assert (got.text, got.reasoning) == (text, thought)
    assert [(one.name, orjson.loads(one.arguments)) for one in got.calls] == calls
    assert joined(fed(parser(), pieces)) == joined(fed(parser(), [whole]))


def test_a_template_that_writes_it() -> None:
    template = "{{ '<|open|>' + tag + '<|sep|>' }}{{ '<|close|>' }}"
    written = argument("probe_key", "string", "probe value") + argument("probe_flag", "boolean", "true")
    assert recognised(template, (), tools(call("probe_call", written)) + END)[:2] == ("kimi_k3", "kimi_k3")
    assert recognised(template, (), "<tool>probe_call</tool>")[:2] == (None, None)
