"""Fill-in-the-middle prompts (text before and after the answer), for vocabularies with marks for them."""

from typing import Final, NamedTuple

from gateway.text.tokens.tokenizer import Tokenizer


class FillInStyle(NamedTuple):
    """A family's prompt form: marks and texts in order, the texts as `{prefix}` and `{suffix}`.

    `joined`: its texts begin with a space of the tokenizer's own, which the suffix must not have.
    """

    parts: tuple[str, ...]
    joined: bool = False


_PREFIX: Final = "{prefix}"
_SUFFIX: Final = "{suffix}"
#: From the models' documentation; styles with longer marks first.
FAMILIES: Final = (
    # Qwen2.5-Coder, Qwen3-Coder, CodeGemma.
    FillInStyle(("<|fim_prefix|>", _PREFIX, "<|fim_suffix|>", _SUFFIX, "<|fim_middle|>")),
    # StarCoder, StarCoder2, Granite.
    FillInStyle(("<fim_prefix>", _PREFIX, "<fim_suffix>", _SUFFIX, "<fim_middle>")),
    # DeepSeek-Coder, DeepSeek-V2 and later: full-width bars, and block characters for spaces.
    FillInStyle(("<｜fim▁begin｜>", _PREFIX, "<｜fim▁hole｜>", _SUFFIX, "<｜fim▁end｜>")),
    # CodeLlama.
    FillInStyle(("▁<PRE>", _PREFIX, "▁<SUF>", _SUFFIX, "▁<MID>"), joined=True),
    # Codestral.
    FillInStyle(("[SUFFIX]", _SUFFIX, "[PREFIX]", _PREFIX)),
)
#: A character that is always encoded as separate tokens.
_SEPARATOR: Final = "☺"


def fill_in_of(tokenizer: Tokenizer) -> FillInStyle | None:
    """The style whose marks the vocabulary has; None if it has none of them."""
    for family in FAMILIES:
        marks = [part for part in family.parts if part not in (_PREFIX, _SUFFIX)]
        if all(_mark(tokenizer, mark) is not None for mark in marks):
            return family
    return None


def encode_fill_in(tokenizer: Tokenizer, prefix: str, suffix: str) -> list[int]:
    """Encode a prompt for the text between prefix and suffix. The vocabulary must have a style's marks."""
    family = fill_in_of(tokenizer)
    assert family is not None, "such prompts are refused before"
    ids = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    for part in family.parts:
        if part == _PREFIX:
            ids += tokenizer.encode(prefix, special=False)
        elif part == _SUFFIX:
            ids += _joined(tokenizer, suffix) if family.joined else tokenizer.encode(suffix, special=False)
        else:
            mark = _mark(tokenizer, part)
            assert mark is not None, "the family was chosen for its marks"
            ids.append(mark)
    return ids


def _mark(tokenizer: Tokenizer, mark: str) -> int | None:
    """A mark's id: a control token in some vocabularies, in others a word that no other text encodes to."""
    control = tokenizer.specials.get(mark)
    if control is not None:
        return control
    ids = tokenizer.encode(mark, special=False)
    return ids[0] if len(ids) == 1 else None


def _joined(tokenizer: Tokenizer, text: str) -> list[int]:
    """Encode a text as if after other text: without the space that a SentencePiece text begins with."""
    before = tokenizer.encode(_SEPARATOR, special=False)
    ids = tokenizer.encode(_SEPARATOR + text, special=False)
    return ids[len(before) :] if ids[: len(before)] == before else tokenizer.encode(text, special=False)
