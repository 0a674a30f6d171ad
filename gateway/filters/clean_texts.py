"""Texts in which nothing was found: a conversation sends its instructions and all that was said again with each turn.

Nothing but keyed hashes is kept, and apart for each tenant: neither what is here nor the time that a look takes tells
one tenant what another one has sent.
"""

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from safety.screen import Rule

#: Texts that are remembered, at most twice as many; each takes about 100 bytes.
MOST: Final = 16_384
_DIGEST_BYTES: Final = 16


class CleanTexts:
    """Remembers what was found clean lately, by which rules and whose. Of one worker."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._key = secrets.token_bytes(32)
        # Those of the last generation still count, and move on when they are met again.
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def name_of(self, tenant: str, rules: Sequence[Rule], text: str) -> bytes:
        """What a text is remembered under. Rules live as long as their worker, so they are told apart by identity."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=_DIGEST_BYTES)
        digest.update(b"\0%b\0%d" % (tenant.encode(), id(rules)))
        return digest.digest()

    def __contains__(self, name: bytes) -> bool:
        """Whether the text was found clean."""
        if name in self._young:
            return True
        if name not in self._old:
            return False
        self.add(name)
        return True

    def add(self, name: bytes) -> None:
        """The text is clean."""
        if len(self._young) >= self._most:
            self._old, self._young = self._young, set()
        self._young.add(name)
