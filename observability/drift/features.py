"""The features of a request that drift counts, and their bins.

Lengths lie in quarter octaves, so that 20 % are about one bin. Tenants are counted by a hash of their names, in 32
bins: their number is not bounded, and a tenant that is new shows in its bin all the same.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal
from zlib import crc32

from observability.record import RequestRecord

Side = Literal["input", "output"]
#: How a window is compared: by the Kolmogorov-Smirnov distance, for bins with an order, or the population stability
#: index.
Measure = Literal["ks", "psi"]
#: Counts by bin.
Histogram = Mapping[str, int]

TENANT_BINS: Final = 32
#: The language of a text that is too short, or none.
UNKNOWN: Final = "und"
_PER_OCTAVE: Final = 4
_OCTAVES: Final = 22
_EDGES: Final = sorted({round(2 ** (place / _PER_OCTAVE)) for place in range(_OCTAVES * _PER_OCTAVE)})
_TOOL_EDGES: Final = (1, 2, 4, 8, 16)


def length_bin(tokens: int) -> str:
    """The bin of so many tokens."""
    return str(bisect_right(_EDGES, tokens))


@dataclass(frozen=True, slots=True)
class Feature:
    """One histogram. `bin_of` gives a request's bin; bins of lengths are numbers in the order of the lengths."""

    name: str
    side: Side
    measure: Measure
    bin_of: Callable[[RequestRecord], str]


FEATURES: Final = (
    Feature("prompt_tokens", "input", "ks", lambda record: length_bin(record.prompt_tokens)),
    Feature("language", "input", "psi", lambda record: record.language or UNKNOWN),
    Feature("tools", "input", "psi", lambda record: str(bisect_right(_TOOL_EDGES, record.tools))),
    Feature("tenants", "input", "psi", lambda record: str(crc32(record.tenant.encode()) % TENANT_BINS)),
    Feature("answer_tokens", "output", "ks", lambda record: length_bin(record.completion_tokens)),
    Feature("refusals", "output", "psi", lambda record: "yes" if record.refused else "no"),
    Feature("finish", "output", "psi", lambda record: record.finish),
)
BY_NAME: Final = {feature.name: feature for feature in FEATURES}


def longest(bin_: str) -> int:
    """The most tokens that a bin of lengths holds."""
    place = int(bin_)
    return (_EDGES[place] - 1) if place < len(_EDGES) else 1 << _OCTAVES
