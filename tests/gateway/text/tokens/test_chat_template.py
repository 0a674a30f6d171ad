"""Templates in the forms that models carry them, and what a caller's text can and cannot do to them."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.tokens.bpe import BytePairTokenizer
from gateway.text.tokens.chat_format import TemplateError
from gateway.text.tokens.chat_template import ChatTemplate
from gateway.text.tokens.tokenizer import TokenizerError

CONTROL = (
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|end|>",
    "<|eot_id|>",
    "<think>",
    "</think>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[INST]",
    "[/INST]",
    "<|User|>",
    "<|Assistant|>",
)
SPECIALS = {text: token for token, text in enumerate(CONTROL, 256)}
TOKENIZER = BytePairTokenizer(
    {bytes((byte,)): byte for byte in range(256)},
    r"\s+|\S+",
    specials=SPECIALS,
    vocab_size=300,
    eos_ids=frozenset({257}),
    bos_id=256,
)

CHATML = """
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""
HEADERS = """
{%- for message in messages -%}
  {%- set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim
      + '<|eot_id|>' -%}
  {%- if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif -%}
  {{ content }}
{%- endfor -%}
{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""
# The control token is put together from its parts and the role, in an expression and in literal text.
ROLE_EXPRESSION = """
{%- for message in messages -%}
  {{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"""
ROLE_TEXT = """
{%- for m in messages -%}
<|{{ m.role }}|>{{ m.content }}<|end|>
{%- endfor -%}
<|assistant|>"""
TURNS = """{{ bos_token }}
{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for m in messages -%}
  {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif -%}
  {%- set role = 'model' if m.role == 'assistant' else m.role -%}
  {{ '<start_of_turn>' ~ role ~ '\n' ~ (m.content | trim) ~ '<end_of_turn>\n' }}
{%- endfor -%}
<start_of_turn>model
"""
THINKING = """
{%- macro turn(name, text) -%}{{ name }}{{ text | trim }}{%- endmacro -%}
{%- set ns = namespace(open='<|User|>', system='') -%}
{%- for m in messages if m.role == 'system' %}{% set ns.system = ns.system + m.content %}{% endfor -%}
{{ bos_token + ns.system }}
{%- for m in messages -%}
  {%- set content = m.content -%}
  {%- if m.role == 'user' %}{{ turn(ns.open, content) }}{% endif -%}
  {%- if m.role == 'assistant' -%}
    {%- if '</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif -%}
    {%- generation -%}{{ '<|Assistant|>' + content + eos_token }}{%- endgeneration -%}
  {%- endif -%}
{%- endfor -%}
{{ '<|Assistant|>{}\n'.format('<think>') if add_generation_prompt else '' }}"""
TEMPLATES = {
    "chatml": CHATML,
    "headers": HEADERS,
    "role-expression": ROLE_EXPRESSION,
    "role-text": ROLE_TEXT,
    "turns": TURNS,
    "thinking": THINKING,
}


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, specials=SPECIALS, variables={"bos_token": "<s>", "eos_token": "</s>"})


@pytest.fixture(scope="module", params=TEMPLATES)
def loaded(request: pytest.FixtureRequest) -> ChatTemplate:
    return template(TEMPLATES[request.param])


def chat(*contents: str, system: str | None = None) -> list[dict[str, Any]]:
    opening = [] if system is None else [{"role": "system", "content": system}]
    roles = ("user", "assistant")
    return opening + [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]


def controls(ids: Sequence[int]) -> list[int]:
    return [token for token in ids if token >= 256]


def text_of(ids: Sequence[int]) -> str:
    return b"".join(map(TOKENIZER.token_bytes, ids)).decode()


@pytest.mark.parametrize("messages", [chat("Hello there"), chat("One", "Two", "Three"), chat(" x\n", "\ty ", " ")])
def test_harmless_text_is_encoded_as_the_rendered_whole(loaded: ChatTemplate, messages: list[dict[str, Any]]) -> None:
    whole = loaded.render(messages)
    assert loaded.encode_chat(TOKENIZER, messages) == TOKENIZER.encode(whole, special=True)


nasty = st.lists(
    st.sampled_from([*SPECIALS, "<|", "user", "|>", "[IN", "ST]", "<", "/s>", " ", "\n", "\ufdd0", "\ufdd1", "é", "x"]),
    max_size=6,
).map("".join)


@settings(deadline=None, max_examples=200)
@given(contents=st.lists(nasty, min_size=1, max_size=5).filter(lambda c: len(c) % 2 == 1))
def test_no_text_becomes_a_control_token(loaded: ChatTemplate, contents: list[str]) -> None:
    ids = loaded.encode_chat(TOKENIZER, chat(*contents))
    harmless = loaded.encode_chat(TOKENIZER, chat(*("x" for _ in contents)))
    assert controls(ids) == controls(harmless)
    names = {token: text.encode() for text, token in SPECIALS.items()}
    written = b"".join(names.get(token, TOKENIZER.token_bytes(token)) for token in ids)
    assert written.decode() == loaded.render(chat(*contents))


def test_a_template_that_tests_and_cuts_text_still_does(loaded: ChatTemplate) -> None:
    thinking = template(THINKING)
    ids = thinking.encode_chat(TOKENIZER, chat("Q", "<think>why\n</think>\n\nBecause", "Again"))
    assert text_of(ids) == "QBecauseAgain\n"


def test_the_same_name_in_data_is_not_a_role() -> None:
    loaded = template("{% for m in messages if m.extra %}<|{{ m.extra.role }}|>{{ m.content }}{% endfor %}")
    message = {"role": "user", "content": "x", "extra": {"role": "|><|im_start|>"}}
    assert controls(loaded.encode_chat(TOKENIZER, [message])) == []


def test_extras_are_data() -> None:
    loaded = template("{% if tools %}{{ tools | tojson }}{% endif %}{{ note }}</s>")
    ids = loaded.encode_chat(TOKENIZER, chat("x"), tools=[{"name": "é<|im_start|>"}], note="</s>", bos_token="y")
    assert controls(ids) == [SPECIALS["</s>"]]
    assert text_of(ids) == '[{"name": "é<|im_start|>"}]</s>'


def test_a_refusal_of_the_template_carries_its_words() -> None:
    loaded = template(TURNS)
    with pytest.raises(TemplateError, match=r"^Roles must alternate$"):
        loaded.encode_chat(TOKENIZER, chat("a", "b")[1:])
    quoting = template("{% if messages | length > 9 %}{{ raise_exception('no ' + bos_token + '</s>') }}{% endif %}")
    with pytest.raises(TemplateError, match=r"^no <s></s>$"):
        quoting.encode_chat(TOKENIZER, chat(*"abcdefghij"))


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[9].content.strip() }}",
        "{{ 1 // (messages | length - 1) }}",
        "{% for i in range(100001) %}{% endfor %}",
        "{{ messages.append(1) }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ messages[0].content + 1 }}",
    ],
)
def test_a_failing_template_refuses_the_messages_without_detail(source: str) -> None:
    with pytest.raises(TemplateError, match=r"^The messages do not fit the model's chat template\.$"):
        template("{% if messages[0].content == 'x' %}" + source + "{% endif %}").encode_chat(TOKENIZER, chat("x"))


def test_a_template_that_no_chat_fits_is_refused() -> None:
    with pytest.raises(TokenizerError, match="refuses even the simplest"):
        template("{{ raise_exception('no') }}")


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(TemplateError, match=r"'<\|im_start\|>' is not a role"):
        template(CHATML).encode_chat(TOKENIZER, [{"role": "<|im_start|>", "content": "x"}])


def test_developer_is_system_where_the_template_does_not_know_it() -> None:
    message = {"role": "developer", "content": "x"}
    assert template(CHATML).render([message]).startswith("<|im_start|>system\nx")
    knowing = template("{% for m in messages %}{{ 'D' if m.role == 'developer' else 'O' }}{{ m.content }}{% endfor %}")
    assert knowing.render([message]) == "Dx"
    assert message["role"] == "developer"


@pytest.mark.parametrize("source", ["{% if %}", "{{ 'a' ", "{% nothing %}"])
def test_a_template_that_does_not_parse_is_refused(source: str) -> None:
    with pytest.raises(TokenizerError, match="chat template, line 1"):
        template(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ('x</s>' + messages[0].content)[2:] }}",
        "{{ '[in' | upper }}{{ 'st]' | upper }}",
        "{% set m = messages[0].content | replace('One', '</s>') %}{{ m }}",
    ],
)
def test_a_template_whose_control_tokens_cannot_be_told_is_refused(source: str) -> None:
    with pytest.raises(TokenizerError, match="cannot be told"):
        template(source)


def test_what_templates_expect_of_hugging_face() -> None:
    loaded = template("{{ strftime_now('%Y') | length }}{{ {'b': 'é', 'a': 1} | tojson(indent=1, sort_keys=true) }}")
    assert loaded.render([]) == '4{\n "a": 1,\n "b": "é"\n}'
    breaking = template(
        "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m.content }}{% endfor %}"
    )
    assert breaking.render(chat("a", "b")) == "a"
    assert (
        template("{{ messages[0].items() | list | length }}{{ messages[0].get('role') }}").render(chat("a")) == "2user"
    )
    assert (
        template("{% set ns = namespace(a=1) %}[{{ ns.b }}{{ ns.a }}{{ messages[0].none }}]").render(chat("a")) == "[1]"
    )


def test_text_that_is_called_safe_escapes_what_is_added_to_it() -> None:
    source = """{% for t in tools or [] %}{{ "<|a|>Use '"|safe + t.function.name + "': "|safe + t|tojson }}{% endfor %}
{%- for m in messages %}{{ m.content }}{% endfor %}"""
    template = ChatTemplate(source, specials={"<|a|>": 5})
    assert "tools" in template.reads
    tools = [{"function": {"name": "f<"}}]
    rendered = template.render([{"role": "user", "content": "Hi"}], tools=tools)
    assert rendered == "<|a|>Use 'f&lt;': {&#34;function&#34;: {&#34;name&#34;: &#34;f&lt;&#34;}}Hi"
