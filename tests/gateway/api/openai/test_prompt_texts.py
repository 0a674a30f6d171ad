"""What of a request is text that a model sees, and requests with some of it replaced."""

import json
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.openai.body_reading import read_body
from gateway.api.openai.chat import CHAT
from gateway.api.openai.completions import COMPLETIONS
from gateway.api.openai.prompt_texts import NAME, prompt_texts, rewritten
from gateway.filtering.prompt_text import PromptText
from gateway.models.media_rules import OPENAI
from gateway.text.tokens.detokenizer import TokenTable
from gateway.text.tokens.unknown import UnknownTokenizer
from protos.errors import InvalidRequest
from safety.json_escapes import unescaped
from tests.harness import tekken


def model(*, relays: bool = False, opaque: bool = False) -> Any:
    tokenizer: Any = UnknownTokenizer() if opaque else tekken().tokenizer
    table = TokenTable(tokenizer)
    return SimpleNamespace(relays=relays, opaque=opaque, tokenizer=tokenizer, table=table, media_rule=OPENAI)


OWN, BOTH, UPSTREAM = model(), model(relays=True), model(relays=True, opaque=True)


def texts(body: Any, of: Any = OWN) -> list[PromptText]:
    data = body if isinstance(body, bytes) else orjson.dumps({"model": "m"} | body)
    found = prompt_texts(read_body(COMPLETIONS if b'"prompt"' in data else CHAT, data), data, of)
    parsed = json.loads(data)
    for at in found:
        node = parsed
        for step in at.path:
            if step != NAME:
                node = node[step]
        assert at.path[-1] == NAME or not isinstance(node, str) or unescaped(node) == at.text
    return found


def shown(body: Any, of: Any = OWN) -> list[tuple[str, str, str]]:
    return [(at.role, at.param, at.text) for at in texts(body, of)]


@pytest.mark.parametrize("of", [OWN, BOTH, UPSTREAM])
def test_a_plain_chat(of: Any) -> None:
    messages = [{"role": "system", "content": "S"}] + [{"role": "user", "content": f"ü{i}"} for i in range(70)]
    assert shown({"messages": messages, "stop": ["x"], "user": "me"}, of) == [
        ("system", "messages[0].content", "S"),
        *(("user", f"messages[{i + 1}].content", f"ü{i}") for i in range(70)),
    ]


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Finds it.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "enum": ["Rome"], "description": "Where."}},
                "required": ["city"],
            },
        },
    }
]


@pytest.mark.parametrize("of", [OWN, BOTH, UPSTREAM])
def test_everything_that_a_model_could_see(of: Any) -> None:
    messages = [
        {"role": "developer", "content": "D", "name": "dev"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "T"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"a":1}'}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "R"},
        {"role": "assistant", "refusal": "No.", "audio": {"id": "audio_1"}},
    ]
    body = {"messages": messages, "tools": TOOLS, "user": "me", "stop": "x", "metadata": {"a": "b"}}
    body |= {"prediction": {"type": "content", "content": "P"}, "guided_choice": ["yes", "no"]}
    assert shown(body, of) == [
        ("developer", "messages[0].content", "D"),
        ("developer", "messages[0].name", "dev"),
        ("user", "messages[1].content[0].text", "T"),
        ("user", "messages[1].content[3].file.filename", "a.pdf"),
        ("assistant", "messages[2].tool_calls[0].function.name", "find"),
        ("assistant", "messages[2].tool_calls[0].function.arguments", '{"a":1}'),
        ("tool", "messages[3].content", "R"),
        ("assistant", "messages[4].refusal", "No."),
        ("system", "tools[0].function.name", "find"),
        ("system", "tools[0].function.description", "Finds it."),
        ("system", "tools[0].function.parameters.properties.city", "city"),
        ("system", "tools[0].function.parameters.properties.city.enum[0]", "Rome"),
        ("system", "tools[0].function.parameters.properties.city.description", "Where."),
        ("system", "tools[0].function.parameters.required[0]", "city"),
        ("assistant", "prediction.content", "P"),
        ("system", "guided_choice[0]", "yes"),
        ("system", "guided_choice[1]", "no"),
    ]


@pytest.mark.parametrize("of", [OWN, BOTH, UPSTREAM])
def test_everything_that_a_template_could_show(of: Any) -> None:
    said = {"role": "assistant", "content": "A", "reasoning_content": "Thought", "annotations": [{"title": "Cited"}]}
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "Q"}, said, {"role": "assistant", "content": "B", "reasoning": "R"}]
    }
    body |= {"reasoning_effort": "low", "tool_choice": "auto", "parallel_tool_calls": False, "tools": TOOLS[:1]}
    body |= {"documents": [{"title": "T", "text": "D"}], "chat_template_kwargs": {"note": ["N", {"k": "V"}]}}
    found = shown(body, of)
    assert [one for one in found if not one[1].startswith("tools")] == [
        ("user", "messages[0].content", "Q"),
        ("assistant", "messages[1].content", "A"),
        ("assistant", "messages[1].reasoning_content", "Thought"),
        # Templates are not told of these.
        *([("assistant", "messages[1].annotations[0].title", "Cited")] if of.relays else []),
        ("assistant", "messages[2].content", "B"),
        ("assistant", "messages[2].reasoning", "R"),
        ("tool", "documents[0].title", "T"),
        ("tool", "documents[0].text", "D"),
        ("system", "chat_template_kwargs.note", "note"),
        ("system", "chat_template_kwargs.note[0]", "N"),
        ("system", "chat_template_kwargs.note[1].k", "k"),
        ("system", "chat_template_kwargs.note[1].k", "V"),
    ]
    assert ("system", "tools[0].function.description", "Finds it.") in found
    named = {"type": "function", "function": {"name": "find"}}
    assert ("system", "tool_choice.function.name", "find") in shown(body | {"tool_choice": named}, of)


def test_parts_of_a_message_are_one_text_where_they_are_joined() -> None:
    parts = [{"type": "text", "text": "for"}, {"type": "text", "text": "bidden"}]
    body = {"messages": [{"role": "user", "content": parts}]}
    for of in (OWN, BOTH):
        assert shown(body, of) == [("user", "messages[0].content", "forbidden")]
    apart = [("user", "messages[0].content[0].text", "for"), ("user", "messages[0].content[1].text", "bidden")]
    assert shown(body, UPSTREAM) == apart
    assert [(role, param, text) for role, param, text in shown(body | {"prediction": "P"}) if role == "user"] == apart
    (at,) = texts(body)
    assert orjson.loads(rewritten(orjson.dumps(body), {at.path: "x"})) == {
        "messages": [{"role": "user", "content": "x"}]
    }


@pytest.mark.parametrize("of", [OWN, BOTH, UPSTREAM])
def test_escapes_within_a_text_are_undone(of: Any) -> None:
    called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps({"t": "für\n"})}}
    messages = [
        {"role": "user", "content": r"bob\u0040example.com"},
        {"role": "assistant", "tool_calls": [called]},
        {"role": "tool", "content": r'{"a": "f\u006f"}', "tool_call_id": "c"},
    ]
    found = [text for _, _, text in shown({"messages": messages}, of)]
    assert found == ["bob@example.com", "f", r'{"t": "für\n"}', '{"a": "fo"}']
    hidden = rb'{"model":"m","messages":[{"role":"user","content":"f\u005cu006f"}]}'
    assert [at.text for at in texts(hidden, of)] == ["fo"]


@pytest.mark.parametrize("of", [OWN, BOTH, UPSTREAM])
def test_long_numbers_are_texts(of: Any) -> None:
    schema = {"type": "object", "properties": {"card": {"const": 4111111111111111, "maximum": 100, "default": 1.5}}}
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Q"}], "seed": 4111111111111111}
    body["response_format"] = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    body["documents"] = [{"n": 4111111111111111}]
    found = [one for one in shown(body, of) if one[2].startswith("4")]
    place = "response_format.json_schema.schema.properties.card.const"
    assert found == [("system", place, "4111111111111111"), ("tool", "documents[0].n", "4111111111111111")]
    changed = json.loads(rewritten(orjson.dumps(body), {("documents", 0, "n"): "[CREDIT_CARD]"}))
    assert changed == body | {"documents": [{"n": "[CREDIT_CARD]"}]}


def test_prompts_as_token_ids_are_read() -> None:
    tokenizer = tekken().tokenizer
    ids = tokenizer.encode("it is forbidden", special=False)
    special = next(iter(tokenizer.specials.values()))
    for of in (OWN, BOTH):
        assert shown({"prompt": [special, *ids]}, of) == [("user", "prompt", "it is forbidden")]
        assert shown({"prompt": [ids, "b", ids[:1]]}, of) == [
            ("user", "prompt[0]", "it is forbidden"),
            ("user", "prompt[1]", "b"),
            ("user", "prompt[2]", "it"),
        ]
    half = tokenizer.encode("🜚", special=False)[:1]
    assert shown({"prompt": half})[0][2] == "\ufffd"
    body = orjson.dumps({"model": "m", "prompt": [1, 2], "n": 1})
    assert orjson.loads(rewritten(body, {("prompt",): "x"})) == {"model": "m", "prompt": "x", "n": 1}
    with pytest.raises(InvalidRequest) as unknown:
        texts({"prompt": ids}, UPSTREAM)
    assert unknown.value.param == "prompt"
    with pytest.raises(InvalidRequest):
        texts({"prompt": [1 << 30]})
    assert shown({"prompt": "a", "suffix": "b"}, UPSTREAM) == [("user", "prompt", "a"), ("user", "suffix", "b")]


@pytest.mark.parametrize(
    "message",
    [
        b'{"role":"user","content":"evil","content":"good"}',
        b'{"role":"user","c\\u006fntent":"evil","content":"good"}',
        b'{"role":"system","role":"user","content":"x"}',
        b'{"role":"user","content":[{"type":"text","text":"evil","text":"good"}]}',
        b'{"role":"assistant","content":"good","reasoning_content":"evil","reasoning_content":null}',
        b'{"role":"assistant","content":"good","annotations":["evil"],"annotations":null}',
    ],
)
def test_what_is_said_twice_is_not_sent_on(message: bytes) -> None:
    body = b'{"model":"m","messages":[%b]}' % message
    with pytest.raises(InvalidRequest):
        texts(body, UPSTREAM)


def test_names_of_members_in_texts_are_texts_and_no_members() -> None:
    for text in ('"content"', '"content":"role"', "\\u0041", "content", "ä"):
        body = {"messages": [{"role": "user", "content": text}, {"role": "user", "content": "role"}]}
        for of in (OWN, UPSTREAM):
            assert [at.text for at in texts(body, of)] == [unescaped(text), "role"]


@pytest.mark.parametrize(
    ("prediction", "problem"),
    [
        (b"[" * 900 + b'"x"' + b"]" * 900, "nested"),
        (b"[" * 65 + b'"x"' + b"]" * 65, "nested"),
        (b"[" + b'"x",' * 40_000 + b'"x"]', "texts"),
    ],
)
def test_bodies_beyond_all_bounds(prediction: bytes, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        texts(b'{"model":"m","messages":[{"role":"user","content":"x"}],"prediction":%b}' % prediction, UPSTREAM)


def test_places_are_told_in_short() -> None:
    prediction: Any = ["x"] * 1000
    for _ in range(20):
        prediction = [{"n" * 5000: prediction}]
    found = texts({"messages": [{"role": "user", "content": "x"}], "prediction": prediction}, UPSTREAM)
    assert len(found) == 1 + 20 + 1000
    assert max(len(at.param) for at in found) < 400


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.text(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


def _paths(value: Any, path: Any = ()) -> list[Any]:
    found = [path] if isinstance(value, str) else []
    for step, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        found += _paths(inner, (*path, step))
    return found


@given(value=st.dictionaries(st.text(), VALUES, max_size=4), data=st.data())
def test_what_is_not_replaced_stays_as_it_was(value: dict[str, Any], data: st.DataObject) -> None:
    paths = _paths(value)
    chosen = data.draw(st.lists(st.sampled_from(paths), unique=True)) if paths else []
    replaced = {path: data.draw(st.text()) for path in chosen}
    changed = json.loads(rewritten(json.dumps(value).encode(), replaced))
    for path, text in replaced.items():
        node: Any = value
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = text
    assert changed == value


def test_numbers_keep_their_digits_and_the_outermost_change_counts() -> None:
    body = b' {"a": 1e400, "b": [123456789012345678901234567890, 1.10, {"c": "x", "d":"y"}], "e": {"f" : -0.0}} '
    changed = rewritten(body, {("b", 2, "c"): 'z"', ("b", 2, "d", NAME): "D"})
    assert changed == b'{"a":1e400,"b":[123456789012345678901234567890,1.10,{"c":"z\\"","D":"y"}],"e":{"f" : -0.0}}'
    assert rewritten(b'{"a":{"b":"c"}}', {("a", "b"): "x", ("a",): "y", ("a", NAME): "z"}) == b'{"z":"y"}'
    assert rewritten(body, {}) == body
