"""A vocabulary in tiktoken's form against a tokenizer.json of the same words."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex as TokenizersRegex
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from gateway.text.tokens.bpe import BytePairTokenizer
from gateway.text.tokens.loader import _PROBES, LoadedTokenizer, load_tokenizer
from gateway.text.tokens.tokenizer import TokenizerError
from gateway.text.tokens.tokenizer_json import BYTE_OF

#: In pieces, as such files have it; one takes a class from another, which only some engines of expressions know.
PIECES = (
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lo}&&[^\p{Han}]]*[\p{Ll}\p{Lo}&&[^\p{Han}]]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lo}&&[^\p{Han}]]+",
    r"\p{N}{1,2}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s+(?!\S)",
    r"\s+",
)
CODE = """
import os

raise SystemExit("this is never run")


class OwnTokenizer:
    pat_str = "|".join([
        {pieces}
    ])

    def __init__(self, path):
        self.model = os.system(path, pat_str=self.pat_str)
"""
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|who|>{{ m.role }}<|says|>{{ m.content }}<|eot|>{% endfor %}"
    "{% if add_generation_prompt %}<|who|>assistant<|says|>{% endif %}"
)
#: The last of them the file calls ordinary text, and the template writes.
ADDED = {"[BOS]": True, "[EOS]": True, "<|eot|>": True, "<|who|>": True, "<tool>": False, "<|says|>": False}


def added(first: int) -> list[dict[str, Any]]:
    flags = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False)
    return [
        {"id": first + at, "content": text, "special": special, **flags}
        for at, (text, special) in enumerate(ADDED.items())
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same model twice: with a tokenizer.json, and with a tiktoken file."""
    usual, published = (tmp_path_factory.mktemp(name) for name in ("usual", "published"))
    native = Tokenizer(models.BPE())
    native.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(TokenizersRegex("|".join(PIECES)), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    native.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=list(BYTE_OF), show_progress=False)
    native.train_from_iterator([*_PROBES, *("the river runs to the sea 12 34 河流 入海" for _ in range(20))], trainer)
    document = json.loads(native.to_str())
    vocab: dict[str, int] = document["model"]["vocab"]
    document["added_tokens"] = tokens = added(len(vocab))
    config = {
        "bos_token": "[BOS]",
        "eos_token": {"content": "[EOS]"},
        "chat_template": TEMPLATE,
        "auto_map": {"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]},
        "added_tokens_decoder": {str(token["id"]): {k: v for k, v in token.items() if k != "id"} for token in tokens},
    }
    for folder in (usual, published):
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (usual / "tokenizer.json").write_text(json.dumps(document))
    words = {bytes(BYTE_OF[char] for char in word): id_ for word, id_ in vocab.items()}
    lines = (
        f"{base64.b64encode(word).decode()} {id_}\n" for word, id_ in sorted(words.items(), key=lambda one: one[1])
    )
    (published / "tiktoken.model").write_text("".join(lines))
    pieces = "\n        ".join(f'r"""{piece}""",' for piece in PIECES)
    (published / "tokenization_own.py").write_text(CODE.replace("{pieces}", pieces))
    return usual, published


@pytest.fixture(scope="module")
def loaded(folders: tuple[Path, Path]) -> tuple[LoadedTokenizer, LoadedTokenizer]:
    usual, published = (load_tokenizer(str(folder)) for folder in folders)
    return usual, published


def test_it_is_the_tokenizer_that_a_tokenizer_json_makes(loaded: tuple[LoadedTokenizer, LoadedTokenizer]) -> None:
    usual, published = (one.tokenizer for one in loaded)
    assert isinstance(published, BytePairTokenizer)
    assert published.specials == usual.specials
    assert (published.bos_id, published.eos_ids, published.vocab_size) == (
        usual.bos_id,
        usual.eos_ids,
        usual.vocab_size,
    )
    for token in range(usual.vocab_size + 2):
        assert published.token_bytes(token) == usual.token_bytes(token)
    chat = [{"role": "user", "content": "Río <|eot|> 河流 <tool><|says|>"}]
    assert loaded[1].chat_format.encode_chat(published, chat) == loaded[0].chat_format.encode_chat(usual, chat)


@settings(max_examples=60)
@given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(_PROBES), special=st.booleans())
def test_any_text_has_the_same_tokens(
    loaded: tuple[LoadedTokenizer, LoadedTokenizer], text: str, special: bool
) -> None:
    usual, published = (one.tokenizer.encode(text, special=special) for one in loaded)
    assert published == usual


@pytest.mark.parametrize(
    ("file", "content", "fault"),
    [
        ("tiktoken.model", "IQ== 0\n", "tiktoken.model: the vocabulary has a rank twice or lacks a single byte"),
        ("tiktoken.model", "IQ== 0\nno\n", "tiktoken.model: line 2 is not a word in base 64 and its rank"),
        ("tokenization_own.py", "x = 1", "tokenization_own.py: no different texts as pat_str"),
        ("tokenization_own.py", "pat_str = '('", "tokenization_own.py: its pat_str cannot be used"),
        ("tokenization_own.py", None, "tokenization_own.py: not there, although tokenizer_config.json names it"),
        ("tokenizer_config.json", {"auto_map": None}, None),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["who--model--tokenization_own.X", None]}}, None),
        ("tokenizer_config.json", {"added_tokens_decoder": None}, "tokenizer_config.json: no added_tokens_decoder"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": 1}}, "tokenizer_config.json: added_tokens_decoder: "),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"3": {"content": "[EOS]", "special": True}}},
            "id 3 is that",
        ),
        ("tokenizer_config.json", {"eos_token": None}, "no end-of-sequence token in its configuration files"),
        ("other.tiktoken", "", "several tiktoken files: other.tiktoken, tiktoken.model"),
    ],
)
def test_a_folder_that_is_wrong(
    folders: tuple[Path, Path], tmp_path: Path, file: str, content: Any, fault: str | None
) -> None:
    for path in folders[1].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    if isinstance(content, dict):
        content = json.dumps(json.loads((tmp_path / file).read_text()) | content)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(content)
    if fault is None:
        assert load_tokenizer(str(tmp_path)).tokenizer.eos_ids
        return
    with pytest.raises(TokenizerError) as caught:
        load_tokenizer(str(tmp_path))
    assert fault in str(caught.value)
    assert str(tmp_path) in str(caught.value)
