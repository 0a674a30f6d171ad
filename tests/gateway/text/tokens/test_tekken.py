import base64
import json
from pathlib import Path
from typing import Any

import pytest
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from gateway.text.tokens.loader import load_tokenizer
from gateway.text.tokens.tekken import load_tekken
from gateway.text.tokens.tokenizer import TokenizerError

PATTERN = r"\p{L}+|\p{N}|\s+|[^\p{L}\p{N}\s]+"


def document(**changes: Any) -> dict[str, Any]:
    words = [bytes((byte,)) for byte in range(256)] + [b"th", b"the", b"unused"]
    config = {"pattern": PATTERN, "default_vocab_size": 278, "default_num_special_tokens": 20, "version": "v11"}
    vocab = [{"rank": i, "token_bytes": base64.b64encode(w).decode(), "token_str": None} for i, w in enumerate(words)]
    names = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[THINK]"]
    specials = [{"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(names)]
    return {"config": config | changes.pop("config", {}), "vocab": vocab, "special_tokens": specials} | changes


def write(folder: Path, content: object) -> Path:
    path = folder / "tekken.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_ids_are_shifted_and_cut_to_the_default_size(tmp_path: Path) -> None:
    tokenizer = load_tekken(write(tmp_path, document()))
    assert tokenizer.vocab_size == 278
    assert tokenizer.encode("the", special=False) == [277]
    assert tokenizer.encode("[THINK]the", special=True) == [5, 277]
    assert len(tokenizer.encode("unused", special=False)) == 6
    assert tokenizer.token_bytes(277) == b"the"
    assert tokenizer.token_bytes(278) == b""
    assert tokenizer.token_bytes(7) == b""


def test_files_without_names_have_the_known_control_tokens(tmp_path: Path) -> None:
    tokenizer = load_tekken(write(tmp_path, document(special_tokens=None)))
    known = {token["token_str"]: token["rank"] for token in Tekkenizer.DEPRECATED_SPECIAL_TOKENS}
    assert tokenizer.specials == known


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a tekken file"),
        ("[]", "not a tekken file"),
        (document(config={"default_vocab_size": 1000}), "1000 tokens with 20 special do not fit 259 words"),
        (document(config={"pattern": "("}), "pattern|regex|Parsing"),
        (document(vocab=document()["vocab"][1:]), "do not fit|lacks"),
        (document(special_tokens=[]), "lack </s>"),
    ],
)
def test_a_broken_file_is_named_with_its_fault(tmp_path: Path, content: object, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(TokenizerError, match=message) as caught:
        load_tekken(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"nothing\.json"):
        load_tekken(tmp_path / "nothing.json")


def test_the_bundled_file_gives_its_makers_ids() -> None:
    tokenizer = load_tokenizer("mistral-tekken").tokenizer
    import mistral_common

    reference = Tekkenizer.from_file(Path(mistral_common.__file__).parent / "data" / "tekken_240911.json")
    for text in ("Hello, world. It's 12:30!", " \n\n x\t", "日本語 🎉 é", "[INST] </s>", "def f(x):\n    return x\n"):
        ids = tokenizer.encode(text, special=False)
        assert ids == reference.encode(text, bos=False, eos=False)
        assert [tokenizer.token_bytes(i) for i in ids] == [reference.id_to_byte_piece(i) for i in ids]
    assert tokenizer.vocab_size == reference.n_words
