import pytest

from gateway.text.parsing.delta import Reasoning, Text
from gateway.text.parsing.families.family_registry import output_format
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from tests.gateway.text.parsing.answers import SINGLE, USE, Answer, Call, answer, fed, joined


def parser(use: ToolUse | None = USE, prompt_end: str = "<|start|>assistant") -> OutputParser:
    form = output_format("harmony", "harmony")
    assert form is not None
    made = form.parser(use, prompt_end)
    assert made is not None
    return made


def thought(text: str) -> str:
    return f"<|channel|>analysis<|message|>{text}<|end|><|start|>assistant"


START = "<|start|>assistant"
CALL = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>'
PARIS = Call("get_weather", '{"city": "Paris"}')
BUILT_IN = '<|channel|>commentary to=browser.search code<|message|>{"query": "x"}<|call|>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{thought('Simple.')}<|channel|>final<|message|>2 + 2 = 4.<|return|>", Answer("2 + 2 = 4.", "Simple.")),
        (thought("I need it.") + CALL, Answer("", "I need it.", (PARIS,))),
        (f"{thought('One.')}{thought('Two.')}{CALL}", Answer("", "One.\nTwo.", (PARIS,))),
        (
            f"<|channel|>commentary<|message|>**Plan**:\n1. Look<|end|>{START}{CALL}{START}{CALL}",
            Answer("**Plan**:\n1. Look", "", (PARIS, PARIS)),
        ),
        (
            ' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Paris"}<|call|>',
            Answer(calls=(PARIS,)),
        ),
        (CALL.replace("commentary", "analysis").replace(" <|constrain|>json", ""), Answer(calls=(PARIS,))),
        ("<|channel|>final <|constrain|>json<|message|>{}", Answer("{}")),
        (
            thought("Not {closed} < |").removesuffix("<|end|><|start|>assistant") + CALL,
            Answer("", "Not {closed} < |", (PARIS,)),
        ),
        (CALL.replace("<|call|>", "<|start|>assistant<|channel|>final<|message|>Hi"), Answer("Hi", "", (PARIS,))),
        (CALL[:-14], Answer(calls=(Call("get_weather", '{"city": "P'),))),
        # What could have become a mark is text where the answer ends.
        ("<|channel|>final<|message|>1 <", Answer("1 <")),
        ("<|channel|>analysis<|message|>1 <|", Answer("", "1 <|")),
        (CALL[:-14] + "<", Answer(calls=(Call("get_weather", '{"city": "P<'),))),
        ("<|channel|>commentary to=functions.time_now<|message|><|call|>", Answer(calls=(Call("time_now", "{}"),))),
        (f"{thought('Hm.')}{BUILT_IN}", Answer(f"<|start|>assistant{BUILT_IN}", "Hm.")),
    ],
)
def test_messages(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Just text, with no channel.",
        "to be",
        "<|channel|>rumours<|message|>Psst<|end|>",
        "<|channel|>analysis<|end|>",
        f"<|channel|>{'x' * 600}<|message|>",
        "<|message|>",
        "<|channel|>fin",
        "<|end|><|return|>",
    ],
)
def test_what_is_not_harmony_is_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(parser(), *pieces) == Answer(text)


def test_thinking_is_known() -> None:
    made = parser()
    made.feed("<|channel|>analysis<|message|>Hm")
    assert made.thinking
    made.feed("<|end|><|start|>assistant<|channel|>final<|message|>")
    assert not made.thinking


@pytest.mark.parametrize(
    ("prompt_end", "text", "expected"),
    [
        ("<|start|>assistant<|channel|>analysis<|message|>", "Hm.<|end|>", [Reasoning("Hm.")]),
        ("<|start|>assistant<|channel|>final<|message|>", "Hi", [Text("Hi")]),
        ("<|start|>assistant<|channel|>", "final<|message|>Hi", [Text("Hi")]),
        ("<|start|>assistant<|channel|>", "final words", [Text("final words")]),
        ("<|end|>", "<|channel|>final<|message|>Hi", [Text("Hi")]),
    ],
)
def test_the_prompt_may_have_begun_the_message(prompt_end: str, text: str, expected: list[Reasoning | Text]) -> None:
    assert joined(fed(parser(prompt_end=prompt_end), text)) == expected


def test_without_tools_calls_are_text_and_thoughts_are_none() -> None:
    assert answer(parser(None), thought("Hm.") + CALL) == Answer(f"<|start|>assistant{CALL}", "Hm.")
    form = output_format(None, "harmony")
    assert form is not None
    assert not form.calls
    made = form.parser(USE, "")
    assert made is not None
    assert answer(made, CALL) == Answer(CALL)


def test_later_calls_are_left_out() -> None:
    assert answer(parser(SINGLE), CALL, "<|start|>assistant", CALL) == Answer(calls=(PARIS,))
