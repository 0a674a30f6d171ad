"""What every `Tokenizer` keeps to: the bundled one, and small ones trained here, run by tiktoken and by tokenizers."""

import json
import re
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as NativeTokenizer

from gateway.text.tokens import prompt_unit
from gateway.text.tokens.bpe import BytePairTokenizer
from gateway.text.tokens.detokenizer import Detokenizer, TokenTable
from gateway.text.tokens.huggingface import HuggingFaceTokenizer
from gateway.text.tokens.loader import load_tokenizer
from gateway.text.tokens.text_codec import TokenizerText
from gateway.text.tokens.tokenizer import Tokenizer
from gateway.text.tokens.tokenizer_json import TokenizerJson

SPECIALS = ["<s>", "</s>", "<|im_start|>", "[INST]"]
LLAMA_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
KINDS = ("tekken", "gpt2", "gpt2-library", "llama", "qwen", "sentencepiece", "legacy-sentencepiece")
BYTE_LEVEL = KINDS[:5]

Make = Callable[[str], Tokenizer]


def _corpus() -> list[str]:
    sources = [*sorted(Path(json.__file__).parent.glob("*.py")), Path(re.__file__)]
    return [line for source in sources for line in source.read_text(encoding="utf-8").splitlines(keepends=True)]


def _train(kind: str) -> str:
    """A tokenizer.json of 700 tokens."""
    sentencepiece = kind.endswith("sentencepiece")
    native = NativeTokenizer(models.BPE(byte_fallback=sentencepiece, unk_token="<unk>" if sentencepiece else None))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    extra = []
    if sentencepiece:
        alphabet = []
        extra = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
        native.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        native.decoder = decoders.Sequence(steps)
    else:
        native.decoder = decoders.ByteLevel()
        native.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if kind in {"llama", "qwen"}:
            split = pre_tokenizers.Split(Regex(LLAMA_PATTERN), "isolated")
            plain_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            native.pre_tokenizer = pre_tokenizers.Sequence([split, plain_bytes])
        if kind == "qwen":
            native.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=700, show_progress=False, initial_alphabet=alphabet, special_tokens=extra, min_frequency=2
    )
    native.train_from_iterator(_corpus(), trainer)
    if kind == "legacy-sentencepiece":  # as converted Llama 2 vocabularies are: blanks are a normalizer's affair
        native.pre_tokenizer = None
        native.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    native.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIALS])
    native.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    document: dict[str, Any] = json.loads(native.to_str())
    if sentencepiece:  # the trainer can only add the byte tokens as special ones, real vocabularies have them as words
        document["added_tokens"] = [t for t in document["added_tokens"] if not t["content"].startswith("<0x")]
    return json.dumps(document)


def _load(kind: str, folder: Path) -> Tokenizer:
    if kind == "tekken":
        return load_tokenizer("mistral-tekken").tokenizer
    text = _train(kind)
    if kind == "gpt2-library":
        parsed = msgspec.json.decode(text, type=TokenizerJson)
        specials = parsed.specials()
        return HuggingFaceTokenizer(text, parsed, eos_ids=frozenset({specials["</s>"]}), bos_id=specials["<s>"])
    folder.mkdir()
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": "{{ messages[0].content }}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return load_tokenizer(str(folder)).tokenizer


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    loaded: dict[str, Tokenizer] = {}

    def load(kind: str) -> Tokenizer:
        if kind not in loaded:
            loaded[kind] = _load(kind, tmp_path_factory.mktemp("models") / kind)
        return loaded[kind]

    return load


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest, make: Make) -> Tokenizer:
    return make(request.param)


@pytest.fixture(scope="module", params=BYTE_LEVEL)
def byte_level(request: pytest.FixtureRequest, make: Make) -> Tokenizer:
    return make(request.param)


def any_text() -> st.SearchStrategy[str]:
    """Text of all planes, and text that looks like control tokens."""
    pieces = st.sampled_from([*SPECIALS, "<think>", "</s", "[IN", "ST]", "<0x41>", "▁", " ", "\n", "e\u0301", "Ab1"])
    return st.lists(pieces | st.text(max_size=6), max_size=12).map("".join)


def decoded(tokenizer: Tokenizer, ids: list[int]) -> str:
    text = b"".join(map(tokenizer.token_bytes, ids)).decode()
    return text.removeprefix(" ") if tokenizer.strips_leading_space else text


def test_implementations_are_the_ones_meant(make: Make) -> None:
    by_tiktoken = {kind for kind in KINDS if isinstance(make(kind), BytePairTokenizer)}
    assert by_tiktoken == {"tekken", "gpt2", "llama", "qwen"}


@settings(max_examples=150, deadline=None)
@given(text=any_text())
def test_text_survives(byte_level: Tokenizer, text: str) -> None:
    ids = byte_level.encode(text, special=False)
    assert all(0 <= token < byte_level.vocab_size for token in ids)
    expected = text
    if isinstance(byte_level, BytePairTokenizer) and byte_level._compose:
        expected = unicodedata.normalize("NFC", text)
    assert decoded(byte_level, ids) == expected


@pytest.mark.parametrize("kind", ["sentencepiece", "legacy-sentencepiece"])
@settings(max_examples=150, deadline=None)
@given(text=any_text())
def test_text_survives_sentencepiece(make: Make, kind: str, text: str) -> None:
    tokenizer = make(kind)
    ids = tokenizer.encode(text, special=False)
    assert all(0 <= token < tokenizer.vocab_size for token in ids)
    # ▁ and a blank are one to such a vocabulary, and it writes blanks of its own before a text and after whole words.
    written = decoded(tokenizer, ids)
    assert written.replace(" ", "") == text.replace("▁", "").replace(" ", "")
    if "<think>" not in text:
        assert written.lstrip(" ") == text.replace("▁", " ").lstrip(" ")


@settings(max_examples=150, deadline=None)
@given(text=any_text())
def test_text_never_becomes_control_tokens(tokenizer: Tokenizer, text: str) -> None:
    assert not set(tokenizer.specials.values()) & set(tokenizer.encode(text, special=False))


@settings(max_examples=150, deadline=None)
@given(text=any_text())
def test_native_and_library_agree(make: Make, text: str) -> None:
    for special in (False, True):
        assert make("gpt2").encode(text, special=special) == make("gpt2-library").encode(text, special=special)


@settings(max_examples=50, deadline=None)
@given(before=any_text(), after=any_text())
def test_parts_keep_texts_and_control_tokens_apart(tokenizer: Tokenizer, before: str, after: str) -> None:
    control = "</s>"
    ids = tokenizer.encode_parts([before, control, after])
    assert [token for token in ids if token in tokenizer.specials.values()] == [tokenizer.specials[control]]
    at = ids.index(tokenizer.specials[control])
    assert ids[:at] == tokenizer.encode(before, special=False)


def test_parts_equal_the_whole(tokenizer: Tokenizer) -> None:
    parts = ["", "<s>", "", "[INST]", "Hello, world.\n\nOne two", "</s>", ""]
    assert tokenizer.encode_parts(parts) == tokenizer.encode("".join(parts), special=True)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(any_text() | st.just("one two three, four "), min_size=1, max_size=8),
    controls=st.lists(st.sampled_from(["<s>", "</s>", "[INST]"]), min_size=7, max_size=7),
)
def test_units_one_after_the_other_are_the_prompt(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, texts: list[str], controls: list[str]
) -> None:
    monkeypatch.setattr(prompt_unit, "UNIT_CHARS", 10)
    parts = [part for pair in zip(texts, controls, strict=False) for part in pair][: 2 * len(texts) - 1]
    ids: list[int] | None = []
    for unit in tokenizer.units(parts):
        encoded = tokenizer.encode_unit(unit)
        ids = None if ids is None or encoded is None else ids + encoded
    if ids:
        assert ids == tokenizer.encode_parts(parts)


def test_plain_prompts_have_units(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_unit, "UNIT_CHARS", 10)
    parts = [
        "",
        "<s>",
        "",
        "[INST]",
        "One two three four",
        "</s>",
        "Five six seven",
        "[INST]",
        "Eight nine ten",
        "</s>",
        "",
    ]
    units = tokenizer.units(parts)
    encoded = [tokenizer.encode_unit(unit) for unit in units]
    assert len(units) >= 3
    assert [token for ids in encoded for token in ids or ()] == tokenizer.encode_parts(parts)
    # A prompt that goes on has the same units, but for the last.
    more = tokenizer.units([*parts[:-1], "Eleven twelve", "</s>", "Thirteen"])
    assert more[: len(units) - 1] == units[:-1]


def test_control_tokens_are_read_where_allowed(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<s>[INST]", special=True)
    assert ids == [tokenizer.specials["<s>"], tokenizer.specials["[INST]"]]
    assert tokenizer.bos_id == tokenizer.specials["<s>"]
    assert tokenizer.eos_ids == {tokenizer.specials["</s>"]}


def test_control_tokens_have_no_text(tokenizer: Tokenizer) -> None:
    assert {tokenizer.token_bytes(token) for token in tokenizer.specials.values()} == {b""}


@pytest.mark.parametrize("token", [-1, -(2**40), 2**31, 2**32, 2**70])
def test_ids_outside_the_vocabulary_have_no_text(tokenizer: Tokenizer, token: int) -> None:
    assert tokenizer.token_bytes(token) == b""
    assert tokenizer.token_bytes(tokenizer.vocab_size) == b""


def test_every_id_has_bytes(tokenizer: Tokenizer) -> None:
    texts = {tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)}
    assert {bytes((byte,)) for byte in range(0x80, 0xC0)} <= texts


def test_words_outside_the_merges_are_text(make: Make) -> None:
    for kind in KINDS[1:]:
        tokenizer = make(kind)
        for special in (False, True):
            assert b"<think>" in {tokenizer.token_bytes(t) for t in tokenizer.encode("a <think> b", special=special)}


def test_lone_surrogates_are_replaced(tokenizer: Tokenizer) -> None:
    assert decoded(tokenizer, tokenizer.encode("a\ud800b", special=False)) == "a\ufffdb"


def test_threads_share_a_tokenizer(tokenizer: Tokenizer) -> None:
    text = "The </s> quick [INST] brown fox. " * 200
    expected = [tokenizer.encode(text, special=False), tokenizer.encode(text, special=True)]
    with ThreadPoolExecutor(4) as pool:
        for index, ids in enumerate(pool.map(lambda i: tokenizer.encode(text, special=bool(i % 2)), range(16))):
            assert ids == expected[index % 2]


@pytest.mark.parametrize("kind", ["tekken", "gpt2"])
@pytest.mark.parametrize("blank", [" ", "\n"])
def test_a_million_blanks(make: Make, kind: str, blank: str) -> None:
    text = "a" + blank * 1_000_000 + "b"
    assert decoded(make(kind), make(kind).encode(text, special=False)) == text


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(any_text(), max_size=5))
def test_an_answer_in_pieces_of_text_is_written_as_it_came(tokenizer: Tokenizer, pieces: list[str]) -> None:
    codec, detokenizer = TokenizerText(tokenizer), Detokenizer(TokenTable(tokenizer))
    ids: list[int] = []
    for piece in pieces:
        ids += codec.encode(piece, first=not ids) if piece else []
    written = detokenizer.feed(ids) + detokenizer.flush()
    if isinstance(tokenizer, BytePairTokenizer) and tokenizer._compose:
        assert written == "".join(unicodedata.normalize("NFC", piece) for piece in pieces)
    elif not tokenizer.strips_leading_space:
        assert written == "".join(pieces)
    elif "<think>" not in "".join(pieces):
        # ▁ and a blank are one to such a vocabulary.
        assert written == "".join(pieces).replace("▁", " ")
