import itertools
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from gateway.text.parsing.families.family_registry import FAMILIES, output_format, recognised
from gateway.text.parsing.offered_tools import Tool, ToolUse
from tests.gateway.text.parsing.answers import WEATHER, Call, answer

STRICT = ToolUse((Tool("get_weather", None, WEATHER.parameters, strict=True), Tool("time_now")))
QWEN3 = """{{- "<tools>" }}... return a json object with function name and arguments within <tool_call></tool_call>:
<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>
{{- '<tool_call>\\n{"name": "' }}{{- tool_call.name }}{%- if '</think>' in content %}"""


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (QWEN3, ("hermes", "think")),
        (QWEN3.replace("</think>", ""), ("hermes", None)),
        ("<tool_call>\n<function=example>\n<parameter=x>\n{{ tool.name }}</tool_call>", (None, None)),
        (
            'respond in the format {"name": function name, "parameters": dictionary of argument name}',
            ("llama3_json", None),
        ),
        (
            """{{- '{"name": "' + tool_call.name + '", ' }}{{- '"parameters": ' }}{{- "<|python_tag|>" }}""",
            ("llama3_json", None),
        ),
        ("Use exact format: [func_name1(param1=value1, param2=value2), func_name2(...)]", ("pythonic", None)),
        ("{{ '<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' }}<think>\\n", ("deepseek_v3", "think")),
        ("<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}<think></think>", ("kimi_k2", "think")),
        ("<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>{{ name }}<think>", ("glm45", "think")),
        ("[AVAILABLE_TOOLS]{{ tools }}[/AVAILABLE_TOOLS][TOOL_CALLS] [", ("mistral", None)),
        ("[THINK]{{ x }}[/THINK][TOOL_CALLS]", ("mistral", "magistral")),
        ("<seed:think>{{ x }}</seed:think>", (None, "seed_think")),
        ("<|start|>assistant<|channel|>final<|message|>", ("harmony", "harmony")),
        ("{% for m in messages %}<|im_start|>{{ m.role }}", (None, None)),
    ],
)
def test_templates(template: str, expected: tuple[str | None, str | None]) -> None:
    # What the vocabulary has besides does not count.
    assert recognised(template, ["<tool_call>", "<think>", "[THINK]"]) == expected


@pytest.mark.parametrize(
    ("specials", "expected"),
    [
        (["<s>", "[INST]", "[TOOL_CALLS]", "[ARGS]"], ("mistral", None)),
        (["<s>", "[INST]", "[TOOL_CALLS]", "[THINK]", "[/THINK]"], ("mistral", "magistral")),
        (["<s>", "[INST]"], (None, None)),
        ([], (None, None)),
    ],
)
def test_vocabularies_without_a_template(specials: list[str], expected: tuple[str | None, str | None]) -> None:
    assert recognised("", specials) == expected


def test_what_is_recognised_has_a_form() -> None:
    for tools in (None, *FAMILIES["tools"]):
        for reasoning in (None, *FAMILIES["reasoning"]):
            if "harmony" in (tools, reasoning) and {tools, reasoning} - {None, "harmony"}:
                with pytest.raises(ValueError, match="no other"):
                    output_format(tools, reasoning)
            elif tools is None and reasoning is None:
                assert output_format(tools, reasoning) is None
            else:
                form = output_format(tools, reasoning)
                assert form is not None
                assert form.name
                assert form.calls is (tools is not None)
                assert form.marks


@pytest.mark.parametrize(("tools", "reasoning"), [("qwen", None), (None, "deep"), ("think", None), (None, "hermes")])
def test_unknown_names(tools: str | None, reasoning: str | None) -> None:
    with pytest.raises(ValueError, match="none of the forms"):
        output_format(tools, reasoning)


#: Families whose calls structural tags have no words for.
UNGUIDED = {"pythonic", "kimi_k2", "glm45"}


def format_of(text: str) -> Any:
    tag = orjson.loads(text)
    assert tag["type"] == "structural_tag"
    return tag["format"]


@pytest.mark.parametrize("name", FAMILIES["tools"])
def test_structural_tags(name: str) -> None:
    form = output_format(name, None)
    assert form is not None
    text = form.structural_tag(STRICT)
    assert form.structural_tag(ToolUse((WEATHER,))) is None
    assert (text is None) == (name in UNGUIDED)
    if text is None:
        return
    described = format_of(text)
    assert described["type"] == "triggered_tags"
    for each in described["tags"]:
        assert any(each["begin"].startswith(trigger) for trigger in described["triggers"])
        called = "get_weather" if "get_weather" in each["begin"] else "time_now"
        schema = WEATHER.parameters if called == "get_weather" else {"type": "object"}
        assert each["content"] == {"type": "json_schema", "json_schema": schema}
        # What is guided so is a call.
        parser = form.parser(STRICT, "")
        assert parser is not None
        got = answer(parser, *(each["begin"] + '{"city": "Paris"}' + each["end"]))
        assert got.calls == (Call(called, '{"city": "Paris"}'),)
        assert got.text == ""


def test_without_any_form_there_is_no_tag() -> None:
    for reasoning in ("think", "harmony"):
        form = output_format(None, reasoning)
        assert form is not None
        assert form.structural_tag(STRICT) is None
        assert form.calls_or_answer_tag(STRICT, CITY) is None


CLOSED = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
CITY = {"type": "json_schema", "json_schema": CLOSED}
PARIS = '{"city": "Paris"}'


def written(form: Any) -> list[str]:
    """Some texts that keep to a structural tag's format, two calls after another among them."""
    match form:
        case {"type": "or", "elements": elements}:
            return [text for element in elements for text in written(element)]
        case {"type": "sequence", "elements": elements}:
            return ["".join(parts) for parts in itertools.product(*map(written, elements))]
        case {"type": "tag", "begin": begin, "content": content, "end": end}:
            return [begin + text + end for text in written(content)]
        case {"type": "tags_with_separator", "tags": tags, "separator": separator, "at_least_one": True}:
            assert separator
            texts = [text for tag in tags for text in written(tag)]
            return texts if form["stop_after_first"] else [*texts, texts[0] + separator + texts[-1]]
        case {"type": "const_string", "value": value}:
            return [value]
        case {"type": "regex", "pattern": r"\n{0,2}"}:
            return ["", "\n\n"]
    return {"json_schema": [PARIS], "any_text": ["Hm, <.\n"]}[form["type"]]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("tools", "reasoning"),
    [
        *((tools, reasoning) for tools in FAMILIES["tools"] if tools != "harmony" for reasoning in (None, "think")),
        ("mistral", "magistral"),
        ("harmony", None),
    ],
)
def test_an_answer_is_calls_or_keeps_to_a_format(tools: str, reasoning: str | None, parallel: bool) -> None:
    form, use = output_format(tools, reasoning), replace(STRICT, parallel=parallel)
    assert form is not None
    text = form.calls_or_answer_tag(use, CITY)
    assert (text is None) == (tools in UNGUIDED)
    if text is None:
        return
    found = set()
    for said in written(format_of(text)):
        parser = form.parser(use, "")
        assert parser is not None
        got = answer(parser, *said)
        assert got.reasoning in ("", "Hm, <.\n")
        assert all(call.arguments == PARIS for call in got.calls)
        assert got.text == ("" if got.calls else PARIS)
        found.add((bool(got.reasoning), *(call.name for call in got.calls)))
    calls: set[tuple[str, ...]] = {(), ("get_weather",), ("time_now",)}
    if parallel:
        calls.add(("get_weather", "time_now"))
    thoughts = (False,) if reasoning is None and tools != "harmony" else (False, True)
    assert found == {(thought, *call) for thought in thoughts for call in calls}
