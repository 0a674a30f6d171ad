"""What a metric is: everything that is known of it before there is any number."""

from dataclasses import dataclass
from typing import Final, Literal

#: In front of each name.
PREFIX: Final = "penstock_"
#: What a label shows that is not known, such as the pool of a request that never came to one.
NOTHING: Final = "-"
#: What stands for names that have no series of their own.
OTHER: Final = "other"

Kind = Literal["counter", "gauge", "histogram"]
#: How the numbers of several workers become one. Counters and histograms are sums, of workers that have ended too.
#: `newest`: the worker that has spoken last; `worst`: the state, by its last label, that is worst of all.
Across = Literal["sum", "min", "max", "mean", "newest", "worst"]
#: As UCUM writes them, which OpenTelemetry wants; empty for plain counts and parts.
Unit = Literal["", "s", "By", "USD", "{token}", "{request}"]


@dataclass(frozen=True, slots=True)
class GenAi:
    """The name of a metric in OpenTelemetry's semantic conventions for generative AI, with the buckets they want."""

    name: str
    bounds: tuple[float, ...]
    #: The kind of tokens, where the convention tells them apart.
    token_type: str = ""

    @property
    def exposed(self) -> str:
        """The name in Prometheus' alphabet, with its unit."""
        flat = self.name.replace(".", "_")
        return flat if self.token_type else f"{flat}_seconds"


@dataclass(frozen=True, slots=True)
class Metric:
    """One declaration. `short` is the name without its prefix; `bounds` are a histogram's upper bounds."""

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
        """As it is exposed."""
        return PREFIX + self.short
