"""The vocabulary of the simulated engine's tokenizer as plain values; the gateway's code loads the tokenizer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A vocabulary in plain values. `token_bytes` are empty for control tokens, which `specials` maps from their text.

    `encode` reads every character as text, `encode_marked` control tokens as such.
    """

    size: int
    eos: int
    token_bytes: Callable[[int], bytes] = field(repr=False)
    encode: Callable[[str], list[int]] = field(repr=False)
    encode_marked: Callable[[str], list[int]] = field(repr=False)
    specials: Mapping[str, int] = field(repr=False)

    def tokens_of(self, text: bytes, *, marked: bool = False) -> list[int] | None:
        """Return the tokenizer's ids for a text of exactly these bytes; None where they decode to something else.

        With `marked` the text of a control token becomes one.
        """
        try:
            ids = (self.encode_marked if marked else self.encode)(text.decode())
        except UnicodeDecodeError:
            return None
        return ids if self.written(ids) == text else None

    def written(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of tokens; control tokens count as their text."""
        controls, token_bytes = self._controls, self.token_bytes
        return b"".join(controls.get(token) or token_bytes(token) for token in ids)

    @cached_property
    def _controls(self) -> dict[int, bytes]:
        return {token: text.encode() for text, token in self.specials.items()}
