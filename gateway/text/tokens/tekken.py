"""Mistral's tekken files: JSON with a byte-level vocabulary in merge order, control tokens first."""

from pathlib import Path

import msgspec

from gateway.text.tokens.bpe import BytePairTokenizer
from gateway.text.tokens.tokenizer import TokenizerError

# Files before version 11 do not name their control tokens; these are their ids 0, 1, 2 and so on.
_CONTROL = (
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)


class _Config(msgspec.Struct):
    pattern: str
    default_vocab_size: int
    default_num_special_tokens: int


class _Word(msgspec.Struct, gc=False):
    token_bytes: bytes


class _Special(msgspec.Struct):
    rank: int
    token_str: str


class _File(msgspec.Struct):
    """The parts of a file that are used: a whole file as Python objects would take 100 MB."""

    config: _Config
    vocab: list[_Word]
    special_tokens: list[_Special] | None = None


def load_tekken(path: Path) -> BytePairTokenizer:
    """Load the tokenizer of a tekken file; raises TokenizerError."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise TokenizerError(f"{path}: not a tekken file: {error}") from error
    config = file.config
    reserved = config.default_num_special_tokens
    count = config.default_vocab_size - reserved
    if not 256 <= count <= len(file.vocab) or reserved < 3:
        raise TokenizerError(
            f"{path}: {config.default_vocab_size} tokens with {reserved} special do not fit {len(file.vocab)} words"
        )
    ranks = {word.token_bytes: rank for rank, word in enumerate(file.vocab[:count], reserved)}
    specials = _specials(file.special_tokens, reserved)
    del file  # memory peaks here, and a worker keeps the peak
    if len(ranks) != count or not all(bytes((byte,)) in ranks for byte in range(256)):
        raise TokenizerError(f"{path}: the vocabulary has a word twice or lacks a single byte")
    if "</s>" not in specials:
        raise TokenizerError(f"{path}: the special tokens lack </s>")
    try:
        return BytePairTokenizer(
            ranks,
            config.pattern,
            specials=specials,
            vocab_size=config.default_vocab_size,
            eos_ids=frozenset({specials["</s>"]}),
            bos_id=specials.get("<s>"),
        )
    except ValueError as error:
        raise TokenizerError(f"{path}: {error}") from error


def _specials(listed: list[_Special] | None, reserved: int) -> dict[str, int]:
    if listed is None:
        return {text: rank for rank, text in enumerate(_CONTROL[:reserved])}
    return {token.token_str: token.rank for token in listed if 0 <= token.rank < reserved}
