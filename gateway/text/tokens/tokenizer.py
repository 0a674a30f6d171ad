"""The tokenizer seam: text to token ids and back."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from gateway.text.tokens.prompt_unit import Unit


class TokenizerError(ValueError):
    """A tokenizer or chat template that cannot be loaded; the message is one line and names the file."""


class UnmarkedTemplate(TokenizerError):
    """A chat template whose control tokens cannot be told from the text of messages."""


def without_surrogates(text: str) -> str:
    """Join paired surrogates and replace lone ones by U+FFFD, so that the text is valid UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class PartsEncoder(Protocol):
    """The part of a tokenizer that chat formats need."""

    def encode_parts(self, parts: Sequence[str]) -> Sequence[int]:
        """Encode a prompt in parts, as `Tokenizer.encode_parts`."""


class Tokenizer(Protocol):
    """Converts text to token ids and ids to bytes, for one vocabulary.

    Control tokens (`specials`) steer the model: they open turns, end answers. They are never text, in either direction:
    a caller's words cannot become one (`special=False`) and one does not show in an answer (`token_bytes` is empty).
    """

    @property
    def vocab_size(self) -> int:
        """The vocabulary's size: ids are in `range(vocab_size)`."""

    @property
    def eos_ids(self) -> frozenset[int]:
        """The ids that end an answer."""

    @property
    def bos_id(self) -> int | None:
        """The id that begins a sequence, or None."""

    @property
    def specials(self) -> Mapping[str, int]:
        """The control tokens by the text that a chat template writes for them."""

    @property
    def strips_leading_space(self) -> bool:
        """Whether an answer's one leading space is dropped (SentencePiece writes a space before each word)."""

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Encode `text`; no ids are added at its ends.

        Special=True reads the vocabulary's control tokens in the text, as in a rendered chat template. Special=False
        takes every character as text. Lone surrogates are read as U+FFFD. Both release the GIL in the native encoder
        and are safe from several threads, so long texts (over about 16 KB, 1 ms) belong off the event loop.
        """

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        """Encode a prompt in parts: texts and control tokens in turn, first and last a text (maybe empty).

        Texts are encoded as by `encode(special=False)`. Releases the GIL as that does. Raises KeyError for a part that
        is in a control token's place and is none.
        """

    def units(self, parts: Sequence[str]) -> Sequence[Unit]:
        """Cut a prompt in parts into units, whose encodings one after the other are the prompt's; none: it has none."""

    def encode_unit(self, unit: Unit) -> list[int] | None:
        """Encode one of a prompt's units; None: this prompt has to be encoded whole."""

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of a token in an answer, which need not be whole characters.

        Empty for control tokens and for ids outside the vocabulary: an engine's mistake must not break a stream.
        """
