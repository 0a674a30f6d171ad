import pytest

from gateway.text.parsing.families.family_registry import output_format
from tests.gateway.text.parsing.answers import USE, Answer, Call, answer

BEGIN, END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, ARGUMENTS, CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"


def call(given: str, arguments: str) -> str:
    return f"{CALL}{given}{ARGUMENTS}{arguments}{CALL_END}"


def parsed(*pieces: str) -> Answer:
    form = output_format("kimi_k2", "think")
    assert form is not None
    parser = form.parser(USE, "")
    assert parser is not None
    return answer(parser, *pieces, ids=True)


def test_ids_are_the_models() -> None:
    text = f"<think>Both.</think>I look.{BEGIN}\n{call('functions.search:0', '{}')} {call(' search:7 ', ' {}')}{END}\n"
    for pieces in ([text], list(text)):
        calls = (Call("search", "{}", "functions.search:0"), Call("search", "{}", "search:7"))
        assert parsed(*pieces) == Answer("I look.", "Both.", calls)


@pytest.mark.parametrize("second", ["functions.search:0", "functions.search", "search"])
def test_an_id_that_is_none_is_replaced(second: str) -> None:
    _, other = parsed(BEGIN, call("functions.search:0", "{}"), call(second, "{}"), END).calls
    assert other.name == "search"
    assert other.id.startswith("call_")


def test_what_misses_a_mark() -> None:
    text = f"{call('search:0', '{')[: -len(CALL_END)]}{call('search:1', '{}')[: -len(CALL_END)]}{END}Done"
    for pieces in ([text], list(text)):
        assert parsed(*pieces) == Answer(
            "Done", "", (Call("search", "{", "search:0"), Call("search", "{}", "search:1"))
        )


@pytest.mark.parametrize(
    "text",
    [
        f"{BEGIN}{END}",
        f"{BEGIN}{call('functions.rm:0', '{}')}{END}",
        f"{CALL}functions.search:0",
        f"{CALL}{END}",
        call("search:x", "{}"),
    ],
)
def test_broken_calls_are_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert parsed(*pieces) == Answer(text)


def test_a_section_ends_the_thought() -> None:
    text = f"<think>I look{BEGIN}{call('search:0', '{}')}{END}"
    for pieces in ([text], list(text)):
        assert parsed(*pieces) == Answer("", "I look", (Call("search", "{}", "search:0"),))
