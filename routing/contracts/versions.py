"""A model's versions as bits beside features: what a request needs of a replica says which version serves it.

So whatever looks for a replica that can take a request finds none of another version: candidates, pairs of a prefill
and a decode replica, failover, hedges, and answers that go on elsewhere.
"""

from typing import Final

#: Features on the wire have 64 bits, whoever sends them; these begin above.
_LOWEST: Final = 1 << 64
#: A request's version was named by its client, and is not changed for it. Each replica of a known version has it.
NAMED: Final = _LOWEST
#: The bits of all versions.
VERSIONS: Final = -(_LOWEST << 1)
#: The bits of features alone.
FEATURES: Final = _LOWEST - 1


class VersionBits:
    """The bits of one model's versions in one process. A bit is never given to another version, as requests have it."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}

    def bit(self, version: str) -> int:
        """Return the version's bit; 0 where the version is not known, which is an empty name."""
        if not version:
            return 0
        bit = self._bits.get(version)
        if bit is None:
            bit = self._bits[version] = _LOWEST << (1 + len(self._bits))
        return bit

    def marks(self, version: str) -> int:
        """Return what a replica of the version has beside its features."""
        bit = self.bit(version)
        return bit | NAMED if bit else 0

    def name(self, needs: int) -> str:
        """Return the version among the bits; empty where there is none."""
        version = needs & VERSIONS
        return next((name for name, bit in self._bits.items() if bit == version), "") if version else ""
