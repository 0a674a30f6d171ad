"""Small models that think and call tools: bytes for a vocabulary, and a template in a family's style."""

import json
from pathlib import Path
from typing import Final, NamedTuple

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tests.gateway.text.tokens.tool_templates import HARMONY, HERMES

NAME: Final = "qwen3-sim"
#: Its tokenizer's name for programs that count tokens themselves.
REPOSITORY: Final = "penstock/qwen3-sim"
#: Prompts of coding agents have 60 KB, which are as many tokens here.
CONTEXT: Final = 262144
_REVISION: Final = "0" * 40


class ThinkingModel(NamedTuple):
    """A template, its control tokens (the first ends an answer), and its words of one token."""

    template: str
    marks: tuple[str, ...]
    words: tuple[str, ...] = ()


QWEN_MODEL: Final = ThinkingModel(
    HERMES,
    ("<|im_end|>", "<|im_start|>", "<|endoftext|>"),
    ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
)
HARMONY_MODEL: Final = ThinkingModel(
    HARMONY,
    ("<|return|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>"),
)


def write_thinking_model(folder: Path, form: ThinkingModel = QWEN_MODEL) -> Path:
    """A Hugging Face folder with the tokenizer and the template; gives the folder."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={text: number for number, text in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in form.marks])
    tokenizer.add_tokens([AddedToken(word, special=False, normalized=False) for word in form.words])
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": form.marks[0], "chat_template": form.template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "config.json").write_text('{"model_type": "qwen3"}', encoding="utf-8")
    return folder


def write_cache(cache: Path, model: Path, name: str = REPOSITORY) -> None:
    """Put the model's files where huggingface_hub finds them by that name without a network; they are linked."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(_REVISION, encoding="utf-8")
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / _REVISION).symlink_to(model)
