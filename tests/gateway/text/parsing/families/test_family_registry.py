import pytest

from gateway.text.parsing.families.family_registry import CHANNELS, FAMILIES, output_format, recognised
from gateway.text.parsing.offered_tools import Tool, ToolUse
from tests.gateway.text.parsing.answers import WEATHER

STRICT = ToolUse((Tool("get_weather", None, WEATHER.parameters, strict=True), Tool("time_now")))
QWEN3 = """{{- "<tools>" }}... return a json object with function name and arguments within <tool_call></tool_call>:
<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>
{{- '<tool_call>\\n{"name": "' }}{{- tool_call.name }}{%- if '</think>' in content %}"""


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (QWEN3, ("hermes", "think")),
        (QWEN3.replace("</think>", ""), ("hermes", None)),
        ("<tool_call>\n<function=example>\n<parameter=x>\n{{ tool.name }}</tool_call>", ("qwen3_coder", None)),
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
    assert recognised(template, ["<tool_call>", "<think>", "[THINK]"])[:2] == expected


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
    assert recognised("", specials)[:2] == expected


def test_what_is_recognised_has_a_form() -> None:
    for tools in (None, *FAMILIES["tools"]):
        for reasoning in (None, *FAMILIES["reasoning"]):
            whole = next((name for name in (tools, reasoning) if name in CHANNELS), None)
            if whole is not None and {tools, reasoning} - {None, whole}:
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
