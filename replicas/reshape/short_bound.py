"""Which requests are short: those that leave room beside them in the KV cache of the narrowest replica."""

from typing import Final

#: Largest share of that cache that a short request takes. Chosen to fit (docs/reproductions.md): with a quarter,
#: conversations at low rates are served worse; with half, less is gained at high ones.
_SHORT_PART: Final = 0.4


def short_bound(narrow_tokens: int) -> int:
    """Return the KV tokens that a short request needs at most, where the narrowest replicas hold so many."""
    return int(_SHORT_PART * narrow_tokens)
