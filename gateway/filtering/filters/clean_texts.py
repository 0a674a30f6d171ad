"""A cache of clean texts, since a conversation repeats its instructions and earlier messages with each turn.

Only keyed hashes are kept, separately for each tenant: neither the content nor the timing of the cache tells one tenant
what another one has sent.
"""

import os
from typing import Final

#: Texts per generation of the cache, which has two; each takes about 100 bytes.
MOST: Final = 16_384
#: Whoever knows the key of Python's hashes (SipHash, 64 bits) could construct a text with the hash of a clean one.
_KEY_IS_SECRET: Final = os.environ.get("PYTHONHASHSEED", "random") == "random"


class CleanTexts:
    """A cache of the texts found clean lately, by rules and tenant, in one worker."""

    def __init__(self, most: int = MOST, *, key_is_secret: bool = _KEY_IS_SECRET) -> None:
        """Without a secret key nothing is remembered."""
        self._most = most if key_is_secret else 0
        #: Names of clean texts. Those of the old generation still count, and move to the young one when they are met.
        self.young: set[int] = set()
        self._old: set[int] = set()

    def new(self, tenant: str, key: int, text: str) -> int | None:
        """Give the name to remember a text by if the rules with that key find it clean; None: it is known to be."""
        name = hash((tenant, key, text))
        if name in self.young:
            return None
        if name not in self._old:
            return name
        self.add(name)
        return None

    def add(self, name: int) -> None:
        """Remember the text of that name as clean."""
        if len(self.young) >= self._most:
            self._old, self.young = self.young, set()
            if not self._most:
                return
        self.young.add(name)
