"""Folders with a vocabulary in tiktoken's form (`tiktoken.model`), as Kimi K2 is published.

The file has a line a word: its bytes in base 64, and its rank, which is its id. The expression is in the tokenizer's
Python file, and the special tokens are in tokenizer_config.json.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gateway.text.tokens.bpe import BytePairTokenizer
from gateway.text.tokens.tiktoken_files.named_expression import expression_in
from gateway.text.tokens.tokenizer import TokenizerError
from gateway.text.tokens.tokenizer_json import AddedToken


class _Added(msgspec.Struct):
    content: str
    special: bool = False


@dataclass(frozen=True, slots=True)
class TiktokenFolder:
    """The files of a folder's vocabulary, and its added tokens."""

    vocabulary: Path
    code: Path
    added: tuple[AddedToken, ...]

    @classmethod
    def of(cls, folder: Path, config: Mapping[str, Any]) -> "TiktokenFolder | None":
        """Find the files, by tokenizer_config.json's content; None: no such vocabulary. Raises TokenizerError."""
        vocabularies = sorted({*folder.glob("*.tiktoken"), *folder.glob("tiktoken.model")})
        if not vocabularies:
            return None
        if len(vocabularies) > 1:
            raise TokenizerError(f"{folder}: several tiktoken files: {', '.join(one.name for one in vocabularies)}")
        where = folder / "tokenizer_config.json"
        try:
            listed = msgspec.convert(config.get("added_tokens_decoder") or {}, dict[int, _Added], strict=False)
        except msgspec.ValidationError as error:
            raise TokenizerError(f"{where}: added_tokens_decoder: {error}") from None
        if not listed:
            raise TokenizerError(
                f"{where}: no added_tokens_decoder, which names a tiktoken vocabulary's special tokens"
            )
        added = tuple(AddedToken(id_, token.content, token.special) for id_, token in listed.items())
        return cls(vocabularies[0], _code(folder, config), added)

    def words(self) -> frozenset[str]:
        """The added tokens that are no control tokens."""
        return frozenset(token.content for token in self.added if not token.special)

    def load(self, marks: frozenset[str], *, eos_ids: frozenset[int], bos_id: int | None) -> BytePairTokenizer:
        """Load the tokenizer, whose control tokens include these marks of its template. Raises TokenizerError."""
        ranks = _ranks(self.vocabulary)
        controls = {token.content: token.id for token in self.added if token.special or token.content in marks}
        words = {token.content: token.id for token in self.added if token.content not in controls}
        taken = set(ranks.values()) & {token.id for token in self.added}
        if taken:
            raise TokenizerError(f"{self.vocabulary}: id {min(taken)} is that of an added token, too")
        try:
            return BytePairTokenizer(
                ranks,
                expression_in(self.code),
                specials=controls,
                words=words,
                shown=frozenset(token.id for token in self.added if token.content in controls and not token.special),
                vocab_size=max(*ranks.values(), *(token.id for token in self.added)) + 1,
                eos_ids=eos_ids,
                bos_id=bos_id,
            )
        except ValueError as error:
            raise TokenizerError(f"{self.code}: its pat_str cannot be used: {error}") from error

    def specials(self, marks: frozenset[str]) -> dict[str, int]:
        """The control tokens by text, marks of the template included."""
        return {token.content: token.id for token in self.added if token.special or token.content in marks}


def _code(folder: Path, config: Mapping[str, Any]) -> Path:
    """Find the tokenizer's Python file: the one that the configuration names, or the only one of its name."""
    classes = (config.get("auto_map") or {}).get("AutoTokenizer") if isinstance(config.get("auto_map"), dict) else None
    named = next((name for name in classes if isinstance(name, str)), "") if isinstance(classes, list) else classes
    # As `module.Class`, maybe after the repository that it is of.
    module = named.rpartition("--")[2].partition(".")[0] if isinstance(named, str) else ""
    if module.isidentifier():
        path = folder / f"{module}.py"
        if path.is_file():
            return path
        raise TokenizerError(f"{path}: not there, although tokenizer_config.json names it (auto_map)")
    files = sorted(folder.glob("tokenization*.py"))
    if len(files) != 1:
        raise TokenizerError(f"{folder}: a tiktoken file needs the Python file of its tokenizer (tokenization_*.py)")
    return files[0]


def _ranks(path: Path) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    number = 0
    try:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):  # noqa: B007 (the error names it)
            if line:
                word, rank = line.split()
                ranks[base64.b64decode(word, validate=True)] = int(rank)
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, binascii.Error):
        raise TokenizerError(f"{path}: line {number} is not a word in base 64 and its rank") from None
    if len(set(ranks.values())) != len(ranks) or not all(bytes((byte,)) in ranks for byte in range(256)):
        raise TokenizerError(f"{path}: the vocabulary has a rank twice or lacks a single byte")
    return ranks
