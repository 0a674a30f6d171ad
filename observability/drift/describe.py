"""Say in words how a histogram has moved."""

from collections.abc import Sequence
from typing import Final

from observability.drift.features import Feature, longest

_MOST_BINS: Final = 3
#: Bins of tools by the number of tools that a request offers.
_TOOLS: Final = ("no tools", "1 tool", "2 or 3 tools", "4 to 7 tools", "8 to 15 tools", "16 tools or more")


def change_of(feature: Feature, shares: Sequence[tuple[str, float, float]]) -> str:
    """Describe the change of a feature's shares, which are the bin, what is expected of it, and what it has."""
    if feature.measure == "ks":
        before, now = ([(bin_, pair[side]) for bin_, *pair in shares] for side in (0, 1))
        parts = [
            f"{name} {longest(_quantile(before, part))} -> {longest(_quantile(now, part))} tokens"
            for name, part in (("median", 0.5), ("p95", 0.95))
        ]
        return ", ".join(parts)
    moved = sorted(shares, key=lambda share: -abs(share[2] - share[1]))[:_MOST_BINS]
    return ", ".join(f"{_label(feature, bin_)} {100 * before:.1f} -> {100 * now:.1f} %" for bin_, before, now in moved)


def _quantile(shares: Sequence[tuple[str, float]], part: float) -> str:
    left = part
    for bin_, share in shares:
        left -= share
        if left <= 0:
            return bin_
    return shares[-1][0]


def _label(feature: Feature, bin_: str) -> str:
    if feature.name == "tools" and bin_.isdecimal():
        return _TOOLS[min(int(bin_), len(_TOOLS) - 1)]
    if feature.name == "tenants" and bin_.isdecimal():
        return f"tenants of bin {bin_}"
    return bin_ or "none"
