"""One tokenizer, one template and one table for each content, whatever the folders are called."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.text.tokens.loader import LoadedTokenizer, load_tokenizer
from gateway.text.tokens.shared_tokenizers import SharedTokenizers
from gateway.text.tokens.tokenizer import TokenizerError
from tests.gateway.text.tokens.test_loader import CONFIG, TEMPLATE, tokenizer_json, write


@pytest.fixture
def shared() -> SharedTokenizers:
    return SharedTokenizers()


def folder(path: Path, config: dict[str, Any] | None = None, **changes: Any) -> str:
    path.mkdir()
    write(path / "tokenizer.json", tokenizer_json(**changes))
    write(path / "tokenizer_config.json", CONFIG | (config or {}))
    return str(path)


def test_copies_of_a_folder_are_loaded_once(tmp_path: Path, shared: SharedTokenizers) -> None:
    first = folder(tmp_path / "first")
    shutil.copytree(first, tmp_path / "copy")
    loaded = [load_tokenizer(path, shared) for path in (first, str(tmp_path / "copy"), first)]
    assert loaded[0] is loaded[1] is loaded[2]
    tables = [shared.table(one.tokenizer) for one in loaded]
    assert tables[0] is tables[1] is tables[2]


def test_fine_tunes_share_the_tokenizer_and_have_their_own_template(tmp_path: Path, shared: SharedTokenizers) -> None:
    base = load_tokenizer(folder(tmp_path / "base"), shared)
    tuned = load_tokenizer(folder(tmp_path / "tuned", {"chat_template": "!" + TEMPLATE}), shared)
    assert tuned.tokenizer is base.tokenizer
    assert (base.template, tuned.template) == (TEMPLATE, "!" + TEMPLATE)
    messages = [{"role": "user", "content": "the"}]
    texts = [one.chat_format.encode_chat(one.tokenizer, messages) for one in (base, tuned)]
    assert texts == [[258, 257, 260], [*b"!", 258, 257, 260]]


@pytest.mark.parametrize("other", [{"eos_token": "<|eot|>"}, {"bos_token": "<|end|>"}])
def test_another_first_or_last_token_is_another_tokenizer(
    tmp_path: Path, shared: SharedTokenizers, other: dict[str, Any]
) -> None:
    loaded = [load_tokenizer(folder(tmp_path / name, config), shared) for name, config in (("a", {}), ("b", other))]
    ends = [(one.tokenizer.bos_id, one.tokenizer.eos_ids) for one in loaded]
    assert ends[0] != ends[1]


def test_other_words_or_ends_are_another_tokenizer(tmp_path: Path, shared: SharedTokenizers) -> None:
    base = tokenizer_json()["model"]
    paths = [folder(tmp_path / "a"), folder(tmp_path / "b", model={**base, "merges": []}), folder(tmp_path / "c")]
    write(tmp_path / "c/generation_config.json", {"eos_token_id": [259, 260]})
    assert len({id(load_tokenizer(path, shared).tokenizer) for path in paths}) == 3


def test_a_file_that_has_changed_is_read_again(tmp_path: Path, shared: SharedTokenizers) -> None:
    path = folder(tmp_path / "a")
    before = load_tokenizer(path, shared)
    words = msgspec.convert(tokenizer_json()["model"], dict[str, Any])
    write(tmp_path / "a/tokenizer.json", tokenizer_json(model={**words, "merges": ["t h"]}))
    assert load_tokenizer(path, shared).tokenizer is not before.tokenizer


def test_a_file_that_cannot_be_used_is_said_for_each_folder(tmp_path: Path, shared: SharedTokenizers) -> None:
    for name in ("a", "b"):
        path = folder(tmp_path / name, {"chat_template": "{% if %}"})
        with pytest.raises(TokenizerError, match=name):
            load_tokenizer(path, shared)


def test_tekken_files_and_marked_tables(shared: SharedTokenizers) -> None:
    first, second = (load_tokenizer("mistral-tekken", shared) for _ in range(2))
    assert isinstance(first, LoadedTokenizer)
    assert first.tokenizer is second.tokenizer
    marked = shared.marked_table(first.tokenizer, {"[TOOL_CALLS]"})
    assert marked is shared.marked_table(second.tokenizer, ["[TOOL_CALLS]"])
    assert marked is not shared.marked_table(second.tokenizer, ["[INST]"])
    assert marked is not shared.table(first.tokenizer)
