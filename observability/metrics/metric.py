"""Define the declaration of a metric."""

from dataclasses import dataclass
from typing import Final, Literal

#: Prefix of every name.
PREFIX: Final = "penstock_"
#: The value of an unknown label, such as the pool of a request that reached none.
NOTHING: Final = "-"
#: The value that stands for names without a series of their own.
OTHER: Final = "other"

Kind = Literal["counter", "gauge", "histogram"]
#: How the gauges of several workers are combined. Counters and histograms are sums, ended workers included. `newest`:
#: the last written value; `worst`: the worst state, by its last label.
Across = Literal["sum", "min", "max", "mean", "newest", "worst"]
#: UCUM units, which OpenTelemetry requires; empty for plain counts and ratios.
Unit = Literal["", "s", "By", "USD", "{token}", "{request}"]


@dataclass(frozen=True, slots=True)
class GenAi:
    """A metric's name in OpenTelemetry's semantic conventions for generative AI, with the buckets they require."""

    name: str
    bounds: tuple[float, ...]
    #: The kind of tokens, where the convention has an attribute for it.
    token_type: str = ""

    @property
    def exposed(self) -> str:
        """Return the name in Prometheus' alphabet, with its unit."""
        flat = self.name.replace(".", "_")
        return flat if self.token_type else f"{flat}_seconds"


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of one metric. `short` is the name without its prefix; `bounds` are a histogram's upper
    bounds.
    """

    short: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: Unit = ""
    bounds: tuple[float, ...] = ()
    across: Across = "sum"
    genai: GenAi | None = None

    @property
    def name(self) -> str:
        """Return the exposed name."""
        return PREFIX + self.short
