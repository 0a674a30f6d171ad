"""Shapes of well-known models, a fact table from the `config.json` that each is published with at huggingface.co.

Parameters are the publishers' counts (model cards). A model that is not here is sized by its own files, or by the
number in its name, and its KV cache is unknown.
"""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a model's memory follows from. `None` is unknown."""

    parameters: float | None = None  # all of them, experts included
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_size: int | None = None
    context: int | None = None  # tokens
    #: Parameters of embeddings and output head, which quantisation leaves at two bytes.
    embedding: float = 0.0
    #: Keys and values of a token and layer, where they are not 2 * kv_heads * head_size: latent attention.
    latent: int | None = None
    #: Bits of a published weight, where they are not 16.
    bits: float = 16.0

    @property
    def kv_values(self) -> int | None:
        """Numbers that the KV cache has for one token, over all layers."""
        if self.layers is None:
            return None
        if self.latent is not None:
            return self.layers * self.latent
        if self.kv_heads is None or self.head_size is None:
            return None
        return 2 * self.layers * self.kv_heads * self.head_size


def _a(
    billions: float,
    layers: int,
    heads: int,
    kv_heads: int,
    head_size: int,
    context: int,
    embedding: float = 0.0,
    **more: float,
) -> Architecture:
    return Architecture(
        parameters=billions * 1e9, layers=layers, heads=heads, kv_heads=kv_heads, head_size=head_size, context=context,
        embedding=embedding * 1e9, latent=int(more["latent"]) if "latent" in more else None,
        bits=more.get("bits", 16.0),
    )  # fmt: skip


#: Patterns of names in lower case without the owner; the first that is found holds.
_FAMILIES: Final = tuple(
    (re.compile(pattern), architecture)
    for pattern, architecture in (
        # meta-llama
        (r"llama-?3\.[123]-?(?:instruct-)?70b|llama-3\.3-70b", _a(70.6, 80, 64, 8, 128, 131072, 2.1)),
        (r"llama-?3\.1-?405b", _a(405.9, 126, 128, 8, 128, 131072, 4.2)),
        (r"llama-?3\.1-?8b", _a(8.03, 32, 32, 8, 128, 131072, 1.05)),
        (r"llama-?3\.2-?1b", _a(1.24, 16, 32, 8, 64, 131072, 0.26)),
        (r"llama-?3\.2-?3b", _a(3.21, 28, 24, 8, 128, 131072, 0.39)),
        (r"llama-?3-?8b", _a(8.03, 32, 32, 8, 128, 8192, 1.05)),
        (r"llama-?3-?70b", _a(70.6, 80, 64, 8, 128, 8192, 2.1)),
        (r"llama-?2-?7b|codellama-?7b", _a(6.74, 32, 32, 32, 128, 4096, 0.26)),
        (r"llama-?2-?13b", _a(13.0, 40, 40, 40, 128, 4096, 0.33)),
        (r"llama-?2-?70b", _a(69.0, 80, 64, 8, 128, 4096, 0.52)),
        (r"tinyllama-?1\.1b", _a(1.1, 22, 32, 4, 64, 2048, 0.13)),
        # mistralai
        (r"mixtral-?8x7b", _a(46.7, 32, 32, 8, 128, 32768, 0.26)),
        (r"mixtral-?8x22b", _a(140.6, 56, 48, 8, 128, 65536, 0.4)),
        (r"mistral-7b|zephyr-7b", _a(7.24, 32, 32, 8, 128, 32768, 0.26)),
        (r"mistral-nemo", _a(12.2, 40, 32, 8, 128, 131072, 1.34)),
        (r"mistral-small-(?:24b|3)", _a(23.6, 40, 32, 8, 128, 32768, 1.34)),
        # Qwen
        (r"qwen-?2\.5-(?:coder-)?0\.5b", _a(0.49, 24, 14, 2, 64, 32768, 0.14)),
        (r"qwen-?2\.5-(?:coder-)?1\.5b", _a(1.54, 28, 12, 2, 128, 32768, 0.23)),
        (r"qwen-?2\.5-(?:coder-)?3b", _a(3.09, 36, 16, 2, 128, 32768, 0.31)),
        (r"qwen-?2(?:\.5)?-(?:coder-)?7b", _a(7.62, 28, 28, 4, 128, 32768, 1.09)),
        (r"qwen-?2\.5-(?:coder-)?14b", _a(14.8, 48, 40, 8, 128, 32768, 1.56)),
        (r"qwen-?2\.5-(?:coder-)?32b|qwq-32b", _a(32.8, 64, 40, 8, 128, 32768, 1.56)),
        (r"qwen-?2(?:\.5)?-72b", _a(72.7, 80, 64, 8, 128, 32768, 2.49)),
        (r"qwen3-0\.6b", _a(0.6, 28, 16, 8, 128, 40960, 0.16)),
        (r"qwen3-1\.7b", _a(1.72, 28, 16, 8, 128, 40960, 0.31)),
        (r"qwen3-4b", _a(4.02, 36, 32, 8, 128, 40960, 0.39)),
        (r"qwen3-8b", _a(8.19, 36, 32, 8, 128, 40960, 1.24)),
        (r"qwen3-14b", _a(14.8, 40, 40, 8, 128, 40960, 1.56)),
        (r"qwen3-32b", _a(32.8, 64, 64, 8, 128, 40960, 1.56)),
        (r"qwen3-30b-a3b", _a(30.5, 48, 32, 4, 128, 40960, 0.62)),
        (r"qwen3-235b-a22b", _a(235.0, 94, 64, 4, 128, 40960, 1.24)),
        # google, microsoft, deepseek-ai, openai
        (r"gemma-2-2b", _a(2.61, 26, 8, 4, 256, 8192, 0.59)),
        (r"gemma-2-9b", _a(9.24, 42, 16, 8, 256, 8192, 0.92)),
        (r"gemma-2-27b", _a(27.2, 46, 32, 16, 128, 8192, 1.18)),
        (r"phi-3(?:\.5)?-mini-(?:4k|instruct)?", _a(3.82, 32, 32, 32, 96, 4096, 0.2)),
        (r"phi-4(?!-m)", _a(14.7, 40, 40, 10, 128, 16384, 1.03)),
        (r"deepseek-r1-distill-llama-8b", _a(8.03, 32, 32, 8, 128, 131072, 1.05)),
        (r"deepseek-r1-distill-llama-70b", _a(70.6, 80, 64, 8, 128, 131072, 2.1)),
        # Latent attention keeps 512 values and 64 of the rotated key for a token and layer; published in FP8.
        (
            r"deepseek-(?:v3|r1)(?:$|-0|\.|-base|-zero)",
            _a(671.0, 61, 128, 128, 128, 163840, 1.85, latent=576, bits=8.0),
        ),
        (r"gpt-oss-20b", _a(20.9, 24, 64, 8, 64, 131072, 1.16, bits=4.25)),
        (r"gpt-oss-120b", _a(116.8, 36, 64, 8, 64, 131072, 1.16, bits=4.25)),
    )
)
_EXPERTS: Final = re.compile(r"(?<![\d.])(\d{1,3})x(\d{1,3}(?:\.\d)?)b(?![a-z])")
_SIZE: Final = re.compile(r"(?<![\d.a-z])(\d{1,4}(?:\.\d{1,2})?)([bm])(?![a-z0-9])")


def architecture_of(name: str) -> tuple[Architecture, str]:
    """What is known of a model by its name, with a word on how it is known; empty where nothing is."""
    short = name.rpartition("/")[2].lower().replace("_", "-").replace(":", "-").replace("meta-llama-", "llama-")
    known = next((architecture for pattern, architecture in _FAMILIES if pattern.search(short)), None)
    if known is not None:
        return known, "its published configuration"
    if experts := _EXPERTS.search(short):
        # Experts share their attention, so this is more than the model has.
        return Architecture(parameters=int(experts[1]) * float(experts[2]) * 1e9), "at most, by the numbers in its name"
    if size := _SIZE.search(short):
        return Architecture(parameters=float(size[1]) * (1e9 if size[2] == "b" else 1e6)), "the number in its name"
    return Architecture(), ""
