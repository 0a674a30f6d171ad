import pytest

from gateway.text.parsing.families.family_registry import output_format
from gateway.text.parsing.offered_tools import Tool, ToolUse
from tests.gateway.text.parsing.answers import USE, Answer, Call, answer

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, SEP, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
OLD = f'{CALL}function{SEP}get_weather\n```json\n{{"city": "Paris"}}\n```{CALL_END}'
NEW = f'{CALL}get_weather{SEP}{{"city": "Paris"}}{CALL_END}'
PARIS = Call("get_weather", '{"city": "Paris"}')


def parsed(*pieces: str, use: ToolUse = USE, reasoning: str | None = None, prompt_end: str = "") -> Answer:
    form = output_format("deepseek_v3", reasoning)
    assert form is not None
    parser = form.parser(use, prompt_end)
    assert parser is not None
    return answer(parser, *pieces)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{BEGIN}{OLD}\n{OLD}{END}", Answer(calls=(PARIS, PARIS))),
        (f"{BEGIN}{NEW}{NEW}{END}", Answer(calls=(PARIS, PARIS))),
        (f"I look.{BEGIN}{OLD.replace('```<', '```' + chr(10) + '<')}{END}", Answer("I look.", "", (PARIS,))),
        (OLD + NEW, Answer(calls=(PARIS, PARIS))),
        (f"{BEGIN}{NEW[: -len(CALL_END)]}{END} So.", Answer("So.", "", (PARIS,))),
        (f"{BEGIN}{NEW[: -len(CALL_END)]}{NEW}{END}", Answer(calls=(PARIS, PARIS))),
        (f"{BEGIN}{CALL}time_now{SEP}{CALL_END}{END}", Answer(calls=(Call("time_now", "{}"),))),
        (f'{CALL}search{SEP}{{"query": "```\\n"}}', Answer(calls=(Call("search", '{"query": "```\\n"}'),))),
        (f"{BEGIN}{NEW}And{END}", Answer(f"And{END}", "", (PARIS,))),
    ],
)
def test_calls(text: str, expected: Answer) -> None:
    for pieces in ([text], list(text)):
        assert parsed(*pieces) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"{BEGIN}{END}",
        f"{BEGIN}nothing",
        f"{CALL}function{SEP}rm\n```json\n{{}}\n```{CALL_END}",
        f"{CALL}rm{SEP}{{}}{CALL_END}{END}",
        f"{CALL}function{SEP}{{}}",
        f"{CALL}{'x' * 400}{SEP}{{}}",
        f"{CALL}get_weather",
        f"{CALL}function{SEP}get_wea",
    ],
)
def test_broken_calls_are_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert parsed(*pieces) == Answer(text)


def test_a_tool_that_is_called_function() -> None:
    use = ToolUse((Tool("function"),))
    for text in (f"{CALL}function{SEP}{{}}{CALL_END}", f"{CALL}function{SEP}function\n```json\n{{}}\n```{CALL_END}"):
        assert parsed(*text, use=use) == Answer(calls=(Call("function", "{}"),))


def test_a_section_ends_the_thought() -> None:
    for text in (f"Hm.</think>{BEGIN}{NEW}{END}", f"Hm.{BEGIN}{NEW}{END}"):
        assert parsed(*text, reasoning="think", prompt_end="<｜Assistant｜><think>") == Answer("", "Hm.", (PARIS,))
