"""Prompts that go through the cache of units have the ids that they have without it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.text.tokens import prompt_unit
from gateway.text.tokens.chat_format import ChatFormat, TemplateError
from gateway.text.tokens.chat_template import ChatTemplate
from gateway.text.tokens.loader import load_tokenizer
from gateway.text.tokens.mistral_instruct import MistralInstruct
from gateway.text.tokens.prompt_unit import Unit
from gateway.text.tokens.tokenizer import Tokenizer
from gateway.text.tokens.unit_cache import UnitCache

TOKENIZER = load_tokenizer("mistral-tekken").tokenizer
# Of these two the first leaves out what an earlier answer thought, and so changes what stands before a new question.
FORGETS = """{{ bos_token }}
{%- for m in messages -%}
  {%- if m.role == 'assistant' and not loop.last -%}[INST]{{ m.content.split('~')[-1] }}</s>
  {%- else -%}[INST]{{ m.role }}: {{ m.content }}[/INST]{% endif -%}
{%- endfor -%}"""
COUNTS = """
{%- if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif -%}
{%- for m in messages -%}[INST]{{ messages | length }} {{ m.role }} {{ m.content }}[/INST]{%- endfor -%}"""
CALLS = """
{%- for m in messages -%}
  {%- if m.tool_calls %}[TOOL_CALLS]{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments | tojson }}
  {%- endfor %}{% endif -%}
  [INST]{{ m.role }} {{ m.content }}[/INST]
{%- endfor -%}
{%- if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif -%}"""
FORMATS: dict[str, ChatFormat] = {
    "mistral": MistralInstruct(),
    **{
        name: ChatTemplate(source, specials=TOKENIZER.specials, variables={"bos_token": "<s>"})
        for name, source in {"forgets": FORGETS, "counts": COUNTS, "calls": CALLS}.items()
    },
}
WORDS = (
    *(
        "the",
        " quick",
        " fox",
        "It's",
        " don't",
        "\n",
        "\n\n",
        " \n",
        "  ",
        " ",
        "e\u0301",
        "é",
        "日本語",
        "\nです",
        "한글\n",
    ),
    *("1", "23", "!", "?!\n", "/", "[INST]", "</s>", "~", "\u3000", "Ünï", "\ud800", "Aa", "aA b", "\r\n", "x\n y z "),
)


@pytest.fixture(autouse=True)
def short_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_unit, "UNIT_CHARS", 12)


def texts(most: int = 40) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=most).map("".join)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Turns of users and assistants, with calls of tools and system messages between them."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": draw(texts())}] if draw(st.booleans()) else []
    for number in range(draw(st.integers(1, 5))):
        messages.append({"role": "user", "content": draw(texts())})
        if draw(st.integers(0, 3)) == 0:
            call = {
                "id": f"call{number:05}",
                "type": "function",
                "function": {"name": "look", "arguments": json.dumps({"at": draw(texts(3).filter(str.isascii))})},
            }
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "content": draw(texts()), "tool_call_id": f"call{number:05}"})
        messages.append({"role": "assistant", "content": draw(texts())})
    return messages


def next_prompts(messages: list[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """What a client may send beside or after these messages: a beginning, a cut head, an edit, more at the end."""
    place = st.integers(0, len(messages) - 1)
    return st.one_of(
        place.map(lambda at: messages[: at + 1]),
        place.map(lambda at: messages[at:]),
        st.tuples(place, texts()).map(
            lambda edit: [{**m, "content": edit[1]} if i == edit[0] else m for i, m in enumerate(messages)]
        ),
        conversations().map(lambda more: [*messages, *more]),
    )


TOOLS = [{"type": "function", "function": {"name": "look", "description": "Look  around\nhere", "parameters": {}}}]


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_ids_are_those_without_the_cache(name: str, data: st.DataObject) -> None:
    chat_format = FORMATS[name]
    # Sometimes so small that entries are evicted while a prompt is encoded.
    cache = UnitCache(data.draw(st.sampled_from([500, 2_000, 1_000_000])))
    messages = data.draw(conversations())
    for _ in range(data.draw(st.integers(2, 6))):
        salt = data.draw(st.sampled_from(["", "a", "b"]))
        extras = {"tools": TOOLS} if "tools" in chat_format.reads and data.draw(st.booleans()) else {}
        asked = [*messages, {"role": "user", "content": data.draw(texts())}]
        try:
            expected = chat_format.encode_chat(TOKENIZER, asked, **extras)
        except TemplateError:
            pass
        else:
            found = chat_format.encode_chat(cache.encoder(TOKENIZER, salt), asked, **extras)
            assert list(found) == expected
        messages = data.draw(next_prompts(messages))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(prompts=st.lists(st.tuples(texts(), texts()), max_size=4))
def test_ids_of_texts_are_those_without_the_cache(prompts: list[tuple[str, str]]) -> None:
    cache = UnitCache()
    for shared, own in prompts:
        for text in (shared, shared + own):
            found = cache.encoder(TOKENIZER, "").encode_text(text)
            assert list(found) == TOKENIZER.encode(text, special=False)


class Counting:
    """A tokenizer that notes which units it has encoded."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.encoded: list[Unit] = []
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def encode_unit(self, unit: Unit) -> list[int] | None:
        self.encoded.append(unit)
        return self._tokenizer.encode_unit(unit)

    def characters(self) -> int:
        """The characters encoded since the last call."""
        found = sum(len(part) for unit in self.encoded for part in unit.parts)
        self.encoded.clear()
        return found


@pytest.fixture
def counting() -> Iterator[Any]:
    yield Counting(TOKENIZER)


def turns(count: int) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": f"Turn {i} of a talk about tides and boats. " * 8} for i in range(count)]


def encode(cache: UnitCache, tokenizer: Any, messages: Sequence[Any], salt: str = "") -> Sequence[int]:
    return MistralInstruct().encode_chat(cache.encoder(tokenizer, salt), messages)


@pytest.mark.parametrize("earlier", [10, 40])
def test_a_turn_more_encodes_that_turn_alone(counting: Counting, earlier: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_unit, "UNIT_CHARS", 512)
    cache, messages = UnitCache(), turns(2 * earlier + 3)
    encode(cache, counting, messages[: 2 * earlier + 1])
    assert counting.characters() > earlier * 300
    encode(cache, counting, messages)
    # Two new messages, and what follows the last closed unit: less than a unit and a message.
    assert counting.characters() < 5 * 330 + 512


def test_an_edit_or_a_cut_head_encodes_little(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_unit, "UNIT_CHARS", 300)
    cache, messages = UnitCache(), turns(41)
    encode(cache, counting, messages)
    counting.characters()
    edited = [*messages[:20], {"role": "user", "content": "Something else."}, *messages[21:]]
    encode(cache, counting, edited)
    assert counting.characters() < 4 * 330
    encode(cache, counting, messages[10:])
    assert counting.characters() < 4 * 330


def test_words_like_a_control_token_are_not_taken_for_it() -> None:
    cache = UnitCache()
    encoder = cache.encoder(TOKENIZER, "")
    rest = ["</s>", "and boats", "</s>", "x"]
    for parts in (["", "[INST]", "tides", *rest], ["[INST]tides", *rest]):
        for _ in range(2):
            assert list(encoder.encode_parts(parts)) == TOKENIZER.encode_parts(parts)


def test_nothing_is_shared_between_salts_and_tokenizers(counting: Counting) -> None:
    cache, messages = UnitCache(), turns(9)
    encode(cache, counting, messages, "tenant")
    alone = counting.characters()
    encode(cache, counting, messages, "other")
    assert counting.characters() == alone
    encode(cache, counting, messages, "")
    assert counting.characters() == alone
    other: Any = Counting(TOKENIZER)
    encode(cache, other, messages, "tenant")
    assert other.characters() == alone
    encode(cache, counting, messages, "tenant")
    assert counting.characters() < alone / 4


def test_memory_is_bounded() -> None:
    cache = UnitCache(20_000)
    for number in range(300):
        encode(cache, TOKENIZER, [{"role": "user", "content": f"{number} " + "tides and boats " * 20}])
        assert cache.entries.bytes <= 20_000
    assert cache.entries.bytes > 15_000


def test_what_is_used_stays(counting: Counting) -> None:
    cache = UnitCache(20_000)
    kept = [{"role": "user", "content": "tides and boats " * 8}]
    encode(cache, counting, kept)
    for number in range(100):
        encode(cache, counting, [{"role": "user", "content": f"{number} " + "tides and boats " * 4}])
        counting.characters()
        encode(cache, counting, kept)
        assert counting.characters() < 40


def test_lone_surrogates_are_encoded_whole() -> None:
    text = "tides and boats " * 4 + "\ud800" + " more of it" * 4
    assert UnitCache().encoder(TOKENIZER, "").encode_text(text) == TOKENIZER.encode(text, special=False)
