"""Folders as Hugging Face lays them out, with a vocabulary written by hand."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.text.tokens.bpe import BytePairTokenizer
from gateway.text.tokens.chat_template import ChatTemplate
from gateway.text.tokens.huggingface import HuggingFaceTokenizer
from gateway.text.tokens.loader import load_tokenizer
from gateway.text.tokens.tokenizer import TokenizerError
from gateway.text.tokens.tokenizer_json import BYTE_OF

TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.content }}<|eot|>{% endfor %}"


def tokenizer_json(**changes: Any) -> dict[str, Any]:
    """A byte-level BPE with two merges."""
    vocab = BYTE_OF | {"th": 256, "the": 257}
    added = [
        {"id": 258 + i, "content": content, "special": True, "normalized": False}
        | dict.fromkeys(("lstrip", "rstrip", "single_word"), False)
        for i, content in enumerate(("<s>", "<|end|>", "<|eot|>"))
    ]
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    document: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": step,
        "post_processor": None,
        "decoder": step,
        "model": {"type": "BPE", "vocab": vocab, "merges": ["t h", "th e"]},
    }
    return document | changes


CONFIG = {
    "bos_token": {"content": "<s>", "lstrip": False},
    "eos_token": "<|end|>",
    "pad_token": None,
    "chat_template": TEMPLATE,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny-model"
    folder.mkdir()
    write(folder / "tokenizer.json", tokenizer_json())
    write(folder / "tokenizer_config.json", CONFIG)
    return folder


def write(path: Path, content: object) -> None:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def test_a_folder(folder: Path) -> None:
    write(folder / "generation_config.json", {"eos_token_id": [259, 260]})
    loaded = load_tokenizer(str(folder))
    tokenizer = loaded.tokenizer
    assert isinstance(tokenizer, BytePairTokenizer)
    assert (tokenizer.vocab_size, tokenizer.bos_id, tokenizer.eos_ids) == (261, 258, frozenset({259, 260}))
    messages = [{"role": "user", "content": "the<|eot|>"}]
    ids = loaded.chat_format.encode_chat(tokenizer, messages)
    assert ids == [258, 257, *b"<|eot|>", 260]


@pytest.mark.parametrize(
    ("files", "eos_ids"),
    [
        ({"config.json": {"eos_token_id": 259}}, {259}),
        ({"config.json": {"eos_token_id": None}, "generation_config.json": {"eos_token_id": [259, 260]}}, {259, 260}),
    ],
)
def test_where_the_end_token_is_looked_for(folder: Path, files: dict[str, Any], eos_ids: set[int]) -> None:
    write(folder / "tokenizer_config.json", {"chat_template": TEMPLATE})
    for name, content in files.items():
        write(folder / name, content)
    tokenizer = load_tokenizer(str(folder)).tokenizer
    assert tokenizer.eos_ids == eos_ids
    assert tokenizer.bos_id is None


def rendered(folder: Path) -> str:
    chat_format = load_tokenizer(str(folder)).chat_format
    assert isinstance(chat_format, ChatTemplate)
    return chat_format.render([{"role": "user", "content": "x"}])


def test_where_the_template_is_looked_for(folder: Path) -> None:
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "default"}]
    write(folder / "tokenizer_config.json", CONFIG | {"chat_template": named})
    assert rendered(folder) == "default"
    write(folder / "chat_template.jinja", "file")
    assert rendered(folder) == "file"


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": {"type": "Lowercase"}},
        {"model": tokenizer_json()["model"] | {"merges": ["th e", "t h"]}},
        {"added_tokens": [token | {"rstrip": True} for token in tokenizer_json()["added_tokens"]]},
    ],
)
def test_what_ranks_cannot_say_is_left_to_the_library(folder: Path, changes: dict[str, Any]) -> None:
    write(folder / "tokenizer.json", tokenizer_json(**changes))
    assert isinstance(load_tokenizer(str(folder)).tokenizer, HuggingFaceTokenizer)


def test_disagreement_with_the_library_is_noticed(folder: Path) -> None:
    # "there" has "he" merged first, and then "t" + "he" is no merge; ranks know only that "the" is a word.
    vocab = BYTE_OF | {"he": 256, "th": 257, "the": 300}
    model = {"type": "BPE", "vocab": vocab, "merges": ["h e", "t h", "th e"]}
    write(folder / "tokenizer.json", tokenizer_json(model=model))
    tokenizer = load_tokenizer(str(folder)).tokenizer
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    assert tokenizer.encode("the", special=False) == [BYTE_OF["t"], 256]


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("tokenizer.json", "{", "tokenizer.json: "),
        ("tokenizer.json", {"model": 1}, "tokenizer.json: "),
        ("tokenizer.json", tokenizer_json(model={"type": "Nonsense"}), "tokenizer.json: not a tokenizer"),
        (
            "tokenizer.json",
            tokenizer_json(decoder={"type": "WordPiece", "prefix": "#", "cleanup": True}),
            "decoder 'WordPiece' is not supported",
        ),
        ("tokenizer_config.json", "[]", "tokenizer_config.json: "),
        ("tokenizer_config.json", CONFIG | {"chat_template": "{% if %}"}, "chat template, line 1"),
        ("tokenizer_config.json", {"eos_token": "<|end|>"}, "no chat_template"),
        ("tokenizer_config.json", {"chat_template": TEMPLATE}, "no end-of-sequence token"),
    ],
)
def test_a_broken_file_is_named_with_its_fault(folder: Path, name: str, content: object, fault: str) -> None:
    write(folder / name, content)
    with pytest.raises(TokenizerError) as caught:
        load_tokenizer(str(folder))
    message = str(caught.value)
    assert message.startswith(str(folder))
    assert fault in message
    assert "\n" not in message


CALLING = (
    "{{ tools or '' }}{% for m in messages %}<|eot|>{{ m.content }}{% for c in m.tool_calls or [] %}"
    '<calls>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</calls>'
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}<|eot|>{% endif %}"
)
CALLED = '<calls>{"name": "probe_call", "arguments": {"probe_key": "probe value", "probe_flag": true}}</calls>'


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (CALLING, CALLED),
        (CALLING.replace("%}<calls>", "%}<calls>Hm.<calls>"), f"<calls>Hm.{CALLED}"),
        (TEMPLATE, ""),
    ],
)
def test_a_call_as_the_template_writes_it(folder: Path, template: str, expected: str) -> None:
    write(folder / "tokenizer_config.json", CONFIG | {"chat_template": template})
    assert load_tokenizer(str(folder)).written_call.startswith(expected)
    assert bool(load_tokenizer(str(folder)).written_call) == bool(expected)


def test_a_call_as_a_template_for_tools_writes_it(folder: Path) -> None:
    named = [{"name": "default", "template": TEMPLATE}, {"name": "tool_use", "template": CALLING}]
    write(folder / "tokenizer_config.json", CONFIG | {"chat_template": named})
    assert load_tokenizer(str(folder)).written_call.startswith(CALLED)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"no such folder or file.*mistral-tekken"):
        load_tokenizer(str(tmp_path / "absent"))
    with pytest.raises(TokenizerError, match=r"no tokenizer\.json, no tekken file and no tiktoken file"):
        load_tokenizer(str(tmp_path))


def test_the_bundled_tokenizer_is_light() -> None:
    """Without its maker's library, and within the memory of a worker."""
    script = """
import sys
from pathlib import Path
import gateway.text.tokens.loader
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
before = resident()
loaded = gateway.text.tokens.loader.load_tokenizer("mistral-tekken")
assert loaded.tokenizer.vocab_size == 131072
assert "mistral_common" not in sys.modules
print((resident() - before) // 1_000_000)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 60
