"""Bits of a weight, by what a name, an option or a configuration says of its quantisation."""

import re
from typing import Final

#: Bits with scales and zeros in groups of 128; of GGUF, the means that llama.cpp's documentation of `llama-quantize`
#: lists for Llama 3.1 8B.
_FORMS: Final = (
    (re.compile(r"q2_k"), "GGUF Q2_K", 3.16),
    (re.compile(r"q3_k|iq3"), "GGUF Q3_K", 4.0),
    (re.compile(r"q4_k|q4_0|q4_1|iq4"), "GGUF Q4_K", 4.89),
    (re.compile(r"q5_k|q5_0|q5_1"), "GGUF Q5_K", 5.7),
    (re.compile(r"q6_k"), "GGUF Q6_K", 6.56),
    (re.compile(r"q8_0"), "GGUF Q8_0", 8.5),
    (re.compile(r"mxfp4"), "MXFP4", 4.25),
    (re.compile(r"nvfp4|[-_]fp4"), "FP4", 4.5),
    (re.compile(r"awq"), "AWQ", 4.25),
    (re.compile(r"gptq.{0,8}int8|int8.{0,8}gptq|w8a8|w8a16|int8|8bit|8-bit|llm_int8"), "INT8", 8.0),
    (re.compile(r"gptq"), "GPTQ", 4.25),
    (re.compile(r"int4|4bit|4-bit|w4a16|w4a8|nf4|bnb-4|bitsandbytes|marlin"), "INT4", 4.5),
    (re.compile(r"fp8|f8_e4m3|float8"), "FP8", 8.0),
    (re.compile(r"(?:^|[-_])(?:fp|float)32"), "FP32", 32.0),
)


def quantisation_of(*texts: str) -> tuple[str, float] | None:
    """Name and bits of the first text that says how weights are kept; None where none does: 16 bits."""
    for text in texts:
        lower = text.lower()
        for pattern, name, bits in _FORMS:
            if pattern.search(lower):
                return name, bits
    return None
