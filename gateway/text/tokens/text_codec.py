"""Conversion between token ids and text for engines with text input and output."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gateway.text.tokens.tokenizer import Tokenizer

#: Inserted into text that looks like a control token, so that the engine's own tokenizer does not read it as one.
_BREAK = "\u200b"
#: A text that joins no word with what follows, for encoding text as the middle of an answer.
_BEFORE = "\n"
#: The stand-in for a space in such vocabularies, which cannot tell the two apart.
_SPACE = "▁"


@dataclass(frozen=True)
class TokenizerText:
    """A `TextCodec` (routing/transports/triton/settings.py). `adds_bos`: the engine writes the opening token."""

    tokenizer: Tokenizer = field(repr=False)
    adds_bos: bool = True

    def decode(self, token_ids: Sequence[int]) -> str:
        """Decode tokens to their text, control tokens as a template writes them.

        A caller's words that look like a control token are broken by a zero-width space: they are not to become one.
        """
        tokenizer = self.tokenizer
        ids = token_ids[1:] if self.adds_bos and token_ids and token_ids[0] == tokenizer.bos_id else token_ids
        parts: list[str] = []
        words = bytearray()
        for token in ids:
            control = self._controls.get(token)
            if control is None:
                words += tokenizer.token_bytes(token)
                continue
            parts += [self._without_controls(words), control]
            words.clear()
        parts.append(self._without_controls(words))
        text = "".join(parts)
        return text.removeprefix(" ") if tokenizer.strips_leading_space else text

    def encode(self, text: str, *, first: bool) -> list[int]:
        """Encode `text` as a continuation of an answer; approximately where the vocabulary cannot do so exactly."""
        tokenizer = self.tokenizer
        ids = tokenizer.encode(text, special=False)
        if not tokenizer.strips_leading_space:
            return ids
        # Such a vocabulary begins each text with a space, which is removed only at an answer's start.
        text = (" " + text if first else text).replace(_SPACE, " ")
        wanted = text.encode(errors="replace")
        if self._written(ids) == wanted:
            return ids
        before = tokenizer.encode(_BEFORE, special=False)
        joined = tokenizer.encode(_BEFORE + text, special=False)
        rest = joined[len(before) :]
        return rest if joined[: len(before)] == before and self._written(rest) == wanted else ids

    @cached_property
    def _controls(self) -> dict[int, str]:
        return {token: text for text, token in self.tokenizer.specials.items()}

    @cached_property
    def _looks_like_control(self) -> re.Pattern[str]:
        longest_first = sorted(filter(None, self.tokenizer.specials), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def _without_controls(self, words: bytearray) -> str:
        text = words.decode(errors="replace")
        return self._looks_like_control.sub(lambda found: found[0][0] + _BREAK + found[0][1:], text)

    def _written(self, ids: list[int]) -> bytes:
        return b"".join(map(self.tokenizer.token_bytes, ids))
