from pathlib import Path

import msgspec
import pytest

from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning
from gateway.text.parsing.families.family_registry import output_format
from gateway.text.parsing.offered_tools import Tool, ToolUse
from loadtest.load.parsing_load import OUTPUT, TOOL, prompt_and_members, script
from protos.script import Line, read_script


@pytest.fixture
def lines(tmp_path: Path) -> tuple[Line, ...]:
    file = tmp_path / "answers.jsonl"
    file.write_bytes(script())
    return read_script(file)


def deltas_of(answer: str, use: ToolUse | None) -> list[Delta]:
    format_ = output_format("hermes", "think")
    assert format_ is not None
    parser = format_.parser(use, "[/INST]")
    assert parser is not None
    return [delta for character in answer for delta in parser.feed(character)]


def test_the_forms_are_those_that_the_configuration_names() -> None:
    assert OUTPUT == "{tools: hermes, reasoning: think}"


@pytest.mark.parametrize(("variant", "place"), [("thinking", 0), ("calling", 1)])
def test_a_variants_prompt_is_answered_by_its_line_alone(lines: tuple[Line, ...], variant: str, place: int) -> None:
    prompt, _ = prompt_and_members(variant, "Hello.")
    assert prompt.endswith(" Hello.")
    assert [line.contains in prompt for line in lines] == [number == place for number in range(2)]


def test_other_variants_ask_as_the_plain_load_does() -> None:
    assert prompt_and_members("plain", "Hello.") == prompt_and_members("parsed", "Hello.") == ("Hello.", {})


def test_a_thought_is_all_that_is_said_before_the_answers_end(lines: tuple[Line, ...]) -> None:
    deltas = deltas_of(lines[0].answer[:2000], None)
    assert {type(delta) for delta in deltas} == {Reasoning}
    assert len(deltas) > 1900


def test_a_call_is_of_the_tool_that_is_offered(lines: tuple[Line, ...]) -> None:
    _, more = prompt_and_members("calling", "Hello.")
    tools = msgspec.to_builtins(more)["tools"]
    assert [tool["function"]["name"] for tool in tools] == [TOOL]
    start, *arguments = deltas_of(lines[1].answer[:2000], ToolUse((Tool(TOOL),)))
    assert isinstance(start, CallStart)
    assert start.name == TOOL
    assert {type(delta) for delta in arguments} == {CallArguments}
    assert len(arguments) > 1900
