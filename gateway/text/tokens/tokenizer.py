"""The seam between text and token ids: what a tokenizer must offer to the rest of the gateway."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class TokenizerError(ValueError):
    """A tokenizer or chat template that cannot be loaded; the message is one line and names the file."""


def without_surrogates(text: str) -> str:
    """The text with paired surrogates joined and lone ones replaced by U+FFFD, so that it is valid UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Tokenizer(Protocol):
    """Text to token ids and back to bytes, for one vocabulary.

    Control tokens (`specials`) steer the model: they open turns, end answers. They are never text, in either direction:
    a caller's words cannot become one (`special=False`) and one does not show in an answer (`token_bytes` is empty).
    """

    @property
    def vocab_size(self) -> int:
        """Ids are in `range(vocab_size)`."""

    @property
    def eos_ids(self) -> frozenset[int]:
        """The ids that end an answer."""

    @property
    def bos_id(self) -> int | None:
        """The id that opens a sequence, where the vocabulary has one."""

    @property
    def specials(self) -> Mapping[str, int]:
        """The control tokens by the text that a chat template writes for them."""

    @property
    def strips_leading_space(self) -> bool:
        """Whether an answer's text starts after one leading space (SentencePiece writes a space before each word)."""

    def encode(self, text: str, *, special: bool) -> list[int]:
        """The ids of `text`; no ids are added at its ends.

        Special=True reads the vocabulary's control tokens in the text, as in a rendered chat template. Special=False
        takes every character as text. Lone surrogates are read as U+FFFD. Both release the GIL in the native encoder
        and are safe from several threads, so long texts (over about 16 KB, 1 ms) belong off the event loop.
        """

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        """The ids of a prompt in parts: texts and control tokens in turn, first and last a text (maybe empty).

        Texts are encoded as by `encode(special=False)`. Releases the GIL as that does. Raises KeyError for a part that
        is in a control token's place and is none.
        """

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token adds to an answer, which need not be whole characters.

        Empty for control tokens and for ids outside the vocabulary: an engine's mistake must not break a stream.
        """
