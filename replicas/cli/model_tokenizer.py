"""The interface to tokenizers: what a replica's engine needs of its model's tokenizer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


class NoTokenizer(ValueError):
    """A tokenizer cannot be loaded; the text says which and why."""


@dataclass(frozen=True, slots=True)
class ModelTokenizer:
    """A tokenizer as engines use it. `encode` takes a text and whether to read control tokens in it as such.

    `specials` maps control tokens to their ids, `identity` is the hash that replicas and gateways compare.
    """

    vocab_size: int
    eos_ids: frozenset[int]
    specials: Mapping[str, int]
    token_bytes: Callable[[int], bytes]
    encode: Callable[[str, bool], list[int]]
    identity: str


#: Loads a tokenizer by a bundled name or a path. Raises NoTokenizer.
LoadTokenizer = Callable[[str], ModelTokenizer]
