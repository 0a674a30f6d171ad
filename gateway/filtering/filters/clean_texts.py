"""Texts in which nothing was found: a conversation sends its instructions and all that was said again with each turn.

Nothing but keyed hashes is kept, and apart for each tenant: neither what is here nor the time that a look takes tells
one tenant what another one has sent.
"""

import os
from typing import Final

#: Texts that are remembered, at most twice as many; each takes about 100 bytes.
MOST: Final = 16_384
#: Whoever knows the key of Python's hashes (SipHash, 64 bits) could look for a text with the hash of a clean one.
_KEY_IS_SECRET: Final = os.environ.get("PYTHONHASHSEED", "random") == "random"


class CleanTexts:
    """Remembers what was found clean lately, by which rules and whose. Of one worker."""

    def __init__(self, most: int = MOST, *, key_is_secret: bool = _KEY_IS_SECRET) -> None:
        """Without a secret key nothing is remembered."""
        self._most = most if key_is_secret else 0
        #: Names of clean texts. Those of the last generation still count, and move on when they are met again.
        self.young: set[int] = set()
        self._old: set[int] = set()

    def new(self, tenant: str, key: int, text: str) -> int | None:
        """What the text is to be remembered under if it is clean by the rules of that key; None: it was found clean."""
        name = hash((tenant, key, text))
        if name in self.young:
            return None
        if name not in self._old:
            return name
        self.add(name)
        return None

    def add(self, name: int) -> None:
        """The text of that name is clean."""
        if len(self.young) >= self._most:
            self._old, self.young = self.young, set()
            if not self._most:
                return
        self.young.add(name)
