"""Tools, calls and what came of them in the templates of families, and texts of a caller in all of that."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.tokens.bpe import BytePairTokenizer
from gateway.text.tokens.chat_format import TemplateError
from gateway.text.tokens.chat_template import ChatTemplate
from gateway.text.tokens.forms.call_form import PROBE_CALL, CallForm, parsed_json
from gateway.text.tokens.tool_template import ToolTemplate
from tests.gateway.text.tokens.tool_templates import CONTROL, FAMILIES, HARMONY, HERMES

SPECIALS = {text: token for token, text in enumerate(CONTROL, 256)}
TOKENIZER = BytePairTokenizer(
    {bytes((byte,)): byte for byte in range(256)},
    r"\s+|\S+",
    specials=SPECIALS,
    vocab_size=256 + len(CONTROL),
    eos_ids=frozenset({257}),
    bos_id=256,
)
ID = "call_fedcba9876543210abcdef00"
#: Family -> the form of its calls and how the example's call stands in the prompt.
EXPECTED: dict[str, tuple[CallForm, str]] = {
    "hermes": (CallForm(False, True, False), '"find", "arguments": {"city": "Rome", "now": true}}\n</tool_call>'),
    "llama": (CallForm(False, True, False), '{"name": "find", "parameters": {"city": "Rome", "now": true}}<|eot_id|>'),
    "deepseek": (CallForm(True, False, False), '<|sep|>find\n```json\n{"city":"Rome","now":true}\n```<|/call|>'),
    "harmony": (CallForm(False, True, False), 'functions.find<|channel|>commentary json<|message|>{"city": "Rome"'),
    "glm": (CallForm(False, True, False), "<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>"),
    "mistral": (CallForm(False, True, True), '{"city": "Rome", "now": true}, "id": "0abcdef00"}]</s>[RESULTS]'),
    "pythonic": (CallForm(False, True, False), '[find(city="Rome", now=True)]<|end|><|tool|>find: sunny<|end|>'),
}


def loaded(family: str) -> ChatTemplate:
    return ChatTemplate(FAMILIES[family], specials=SPECIALS, variables={"bos_token": "<s>", "eos_token": "</s>"})


ALL = {family: loaded(family) for family in FAMILIES}


def tools(text: str = "Finds it.") -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {"city": {"type": "string", "description": text}}}
    return [{"type": "function", "function": {"name": "find", "description": text, "parameters": parameters}}]


def talk(arguments: str = '{"city":"Rome","now":true}', result: str = "sunny", **fields: Any) -> list[dict[str, Any]]:
    call = {"id": ID, "type": "function", "function": {"name": "find", "arguments": arguments}}
    return [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call], **fields},
        {"role": "tool", "content": result, "tool_call_id": ID, "name": "find"},
    ]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_each_family_gets_calls_in_the_form_that_it_wants(family: str) -> None:
    form, text = EXPECTED[family]
    assert ALL[family]._call_form == form
    assert ALL[family].calls
    assert "tools" in ALL[family].reads
    messages = talk()
    before = json.dumps(messages)
    rendered = ALL[family].render(messages, tools=tools())
    assert text in rendered
    assert "Finds it." in rendered or family == "mistral"  # which shows tools to the last question only
    assert "sunny" in rendered
    assert "None" not in rendered
    # A request may be rendered for one model after another.
    assert json.dumps(messages) == before


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_harmless_tools_are_encoded_as_the_rendered_whole(family: str) -> None:
    whole = ALL[family].render(talk(), tools=tools())
    assert ALL[family].encode_chat(TOKENIZER, talk(), tools=tools()) == TOKENIZER.encode(whole, special=True)


nasty = st.lists(
    st.sampled_from([*SPECIALS, "<|", "|>", "tool", "[CA", "LLS]", " ", "\n", "\ufdd0", "\ufdd1", "é", '"', "x"]),
    max_size=5,
).map("".join)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), family=st.sampled_from(sorted(FAMILIES)))
def test_no_text_of_tools_becomes_a_control_token(data: st.DataObject, family: str) -> None:
    key, value, result, description, thought = (data.draw(nasty) for _ in range(5))
    messages = talk(json.dumps({key: value}), result, reasoning_content=thought or "x")
    harmless = talk('{"x": "x"}', "x", reasoning_content="x")
    ids = ALL[family].encode_chat(TOKENIZER, messages, tools=tools(description))
    expected = ALL[family].encode_chat(TOKENIZER, harmless, tools=tools("x"))
    assert [token for token in ids if token >= 256] == [token for token in expected if token >= 256]


def test_arguments_that_are_no_object_stay_text() -> None:
    for arguments in ("{", "[1]", '"x"', "NaN", "[" * 100_000, '{"a": NaN}'):
        assert json.dumps(arguments) in ALL["hermes"].render(talk(arguments), tools=tools())
    assert '"arguments": {}}' in ALL["hermes"].render(talk(""), tools=tools())
    # One that wants an object refuses them.
    with pytest.raises(TemplateError, match="do not fit"):
        ALL["glm"].render(talk("{"), tools=tools())


def test_a_template_that_cannot_write_it_so_deep_refuses() -> None:
    deep = '{"a":' * 900 + "1" + "}" * 900
    for family in ("hermes", "harmony"):
        try:
            ALL[family].render(talk(deep), tools=tools())
        except TemplateError as error:
            assert "do not fit" in str(error)


def test_thoughts_go_by_the_name_that_the_template_has() -> None:
    assert "<think>\nHm\n</think>" in ALL["hermes"].render(talk(reasoning_content="Hm"))
    assert "analysis<|message|>Hm<|end|>" in ALL["harmony"].render(talk(reasoning_content="Hm"))


def test_what_a_template_reads() -> None:
    assert {"tools", "enable_thinking"} == ALL["hermes"].reads
    assert "reasoning_effort" in ALL["harmony"].reads
    assert "<think>\n\n</think>" in ALL["hermes"].render(talk(), enable_thinking=False)
    assert "Reasoning: low" in ALL["harmony"].render(talk(), reasoning_effort="low")
    # What it is given anyway, a caller cannot set.
    assert not {"messages", "bos_token", "raise_exception", "namespace"} & (ALL["llama"].reads | ALL["deepseek"].reads)


def test_templates_that_know_no_tools() -> None:
    plain = ChatTemplate("{% for m in messages %}<|user|>{{ m.content }}{% endfor %}", specials=SPECIALS)
    assert (plain.reads, plain.calls) == (frozenset(), False)
    told = "{% for m in messages %}{{ m.content or '' }}{{ m.tool_calls[0].function.name if m.tool_calls }}{% endfor %}"
    assert not ChatTemplate(told, specials=SPECIALS).calls


def test_a_template_that_mixes_tools_with_its_control_tokens_goes_without(caplog: pytest.LogCaptureFixture) -> None:
    source = "{% for m in messages %}{{ m.content }}{% endfor %}{{ ('x</s>' + tools | tojson)[2:] if tools }}"
    template = ChatTemplate(source, specials=SPECIALS)
    assert template.reads == frozenset()
    assert "cannot call tools" in caplog.text


def test_a_template_of_its_own_for_tools() -> None:
    default = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}</s>", specials=SPECIALS)
    both = ToolTemplate(default, ALL["hermes"])
    assert (both.reads, both.calls) == (frozenset({"tools"}), True)
    question = [{"role": "user", "content": "x"}]
    assert both.encode_chat(TOKENIZER, question) == [120, SPECIALS["</s>"]]
    cases: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [(question, {"tools": tools()}), (talk(), {})]
    for messages, extras in cases:
        ids = both.encode_chat(TOKENIZER, messages, **extras)
        assert ids == ALL["hermes"].encode_chat(TOKENIZER, messages, **extras)


def test_the_probe_is_as_the_api_has_it() -> None:
    assert PROBE_CALL[1]["tool_calls"][0]["id"] == PROBE_CALL[2]["tool_call_id"]
    assert ChatTemplate(HERMES, specials={}).calls
    assert ChatTemplate(HARMONY, specials={}).calls


@pytest.mark.parametrize(("text", "value"), [("{}", {}), ("1", 1), ("x", None), ("", None), ("[" * 10_000, None)])
def test_json_or_something_else(text: str, value: object) -> None:
    assert parsed_json(text, otherwise=None) == value


@pytest.mark.parametrize("given_id", ["call_1", "a-b_c", "x", "toolu_01", "123456789", "0" * 40 + "_"])
def test_short_ids_have_the_form_that_templates_demand(given_id: str) -> None:
    form = CallForm(null=False, parsed=True, short=True)
    call = {"id": given_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    (shown,) = form.message({"role": "assistant", "content": None, "tool_calls": [call]})["tool_calls"]
    assert len(shown["id"]) == 9
    assert shown["id"].isalnum()
    assert form.message({"role": "tool", "content": "", "tool_call_id": given_id})["tool_call_id"] == shown["id"]
    other = {**call, "id": f"{given_id}-2"}
    (another,) = form.message({"role": "assistant", "content": None, "tool_calls": [other]})["tool_calls"]
    assert another["id"] != shown["id"]
