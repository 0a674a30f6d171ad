"""Whether a word may say what a number is, which is asked once before any word is looked for."""

from typing import Final

import re2

from safety.pii.announced import ANNOUNCING
from safety.pii.context import KINDS_SPOKEN_OF, PHONE_WORDS

_MEMORY: Final = re2.Options()
_MEMORY.max_mem = 32 << 20
_ANY: Final = re2.compile(f"{ANNOUNCING}|{KINDS_SPOKEN_OF}|{PHONE_WORDS}", _MEMORY)


def says_something(left: bytes) -> bool:
    """Whether there is any of the words of `announced_at`, `named_number` and `phone_word` to the left of a number."""
    # What is announced may have an underscore in the place of a blank, which the others' words do not have.
    return _ANY.search(left.replace(b"_", b" ")) is not None
