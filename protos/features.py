"""Features that a request may need of an engine beyond plain sampling; a replica without one of them is no
candidate.
"""

import enum
from typing import Final


class Feature(enum.IntFlag):
    """Bits of `Info.features` on the wire; a number once assigned stays."""

    NONE = 0
    #: Prompts as token ids: also needed by a text completion of ids.
    TOKEN_IDS = 1
    LOGPROBS = 2
    #: Several answers to one prompt.
    SEVERAL = 4
    LOGIT_BIAS = 8
    GUIDED = 16
    LORA = 32
    TOP_K = 64
    MIN_P = 128
    REPETITION_PENALTY = 256
    MIN_TOKENS = 512
    IGNORE_EOS = 1024
    STOP_TOKEN_IDS = 2048
    #: All other features of the API: only an upstream that speaks the API itself has them.
    WHOLE_API = 4096
    SEED = 8192
    PENALTIES = 16384
    #: An answer of tokens, which can migrate to and from another replica.
    RESUMES = 32768
    #: Endpoints of the API that do not generate.
    EMBEDDINGS = 65536
    RERANK = 131072
    SCORE = 262144
    TOKENIZE = 524288
    #: A guide that goes on from an answer's middle: the engine takes the answer's tokens through it first.
    GUIDE_RESUMES = 1048576
    #: Logprobs of a prompt's tokens.
    PROMPT_LOGPROBS = 2097152

    SAMPLING = TOP_K | MIN_P | REPETITION_PENALTY | MIN_TOKENS | IGNORE_EOS | STOP_TOKEN_IDS | SEED | PENALTIES
    #: Features that engines for token ids usually have.
    TOKENS = TOKEN_IDS | LOGPROBS | SEVERAL | LOGIT_BIAS | SAMPLING | RESUMES


#: Feature -> its name in messages.
NAMES: Final[dict[Feature, str]] = {
    Feature.TOKEN_IDS: "prompts of token ids",
    Feature.LOGPROBS: "logprobs",
    Feature.SEVERAL: "several answers (n > 1)",
    Feature.LOGIT_BIAS: "logit_bias",
    Feature.GUIDED: "guided decoding",
    Feature.LORA: "LoRA adapters",
    Feature.TOP_K: "top_k",
    Feature.MIN_P: "min_p",
    Feature.REPETITION_PENALTY: "repetition_penalty",
    Feature.MIN_TOKENS: "min_tokens",
    Feature.IGNORE_EOS: "ignore_eos",
    Feature.STOP_TOKEN_IDS: "stop_token_ids",
    Feature.SEED: "seed",
    Feature.PENALTIES: "presence and frequency penalties",
    Feature.RESUMES: "answers that go on elsewhere",
    Feature.WHOLE_API: "parameters beyond text generation",
    Feature.EMBEDDINGS: "embeddings",
    Feature.RERANK: "rerank",
    Feature.SCORE: "score",
    Feature.TOKENIZE: "tokenize",
    Feature.GUIDE_RESUMES: "guided answers that go on elsewhere",
    Feature.PROMPT_LOGPROBS: "logprobs of prompts",
}
