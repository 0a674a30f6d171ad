"""Answers of embeddings, of rankings and of tokens, as types for the document."""

from typing import Literal

import msgspec


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is not named may still come."""


class PromptUsage(_Answer, frozen=True, kw_only=True):
    """Tokens that were taken in; none are made."""

    prompt_tokens: int
    total_tokens: int


class Embedding(_Answer, frozen=True, kw_only=True):
    """The vector of one input: numbers, or their 32 bits each in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Embeddings(_Answer, frozen=True, kw_only=True):
    """The vectors of all inputs, in their order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: PromptUsage


class RankedDocument(_Answer, frozen=True, kw_only=True):
    """What was ranked."""

    text: str


class Ranked(_Answer, frozen=True, kw_only=True):
    """One document, by its place in the request."""

    index: int
    relevance_score: float
    document: RankedDocument | None = None


class Ranking(_Answer, frozen=True, kw_only=True):
    """Documents from the most relevant on."""

    id: str
    model: str
    results: list[Ranked]
    usage: PromptUsage


class Score(_Answer, frozen=True, kw_only=True):
    """How alike two texts are."""

    object: Literal["score"]
    index: int
    score: float


class Scores(_Answer, frozen=True, kw_only=True):
    """Of all pairs, in their order."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[Score]
    usage: PromptUsage


class Tokens(_Answer, frozen=True, kw_only=True):
    """The ids of a text's tokens, and their own texts where these were asked for."""

    tokens: list[int]
    count: int
    max_model_len: int
    token_strs: list[str] | None = None


class Text(_Answer, frozen=True, kw_only=True):
    """The text of token ids."""

    prompt: str
