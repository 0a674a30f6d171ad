"""Which replicas are much slower than others of their kind at the same work."""

from collections.abc import Mapping
from math import exp
from statistics import median
from typing import Final

from protos.types import Work

#: A step's work in units of one prompt token's arithmetic. Reading the weights costs as much as the arithmetic of some
#: 300 tokens: an H100 does 990 TFLOP/s (bf16, dense) and reads 3.35 TB/s, so 295 operations a byte. Of Mixtral-8x7B,
#: 13 G active parameters, a token of context costs 128 KiB to read and a pair 4 x 4096 x 32 operations of attention.
#: Rough is enough: replicas of one kind are compared with each other, by several times.
WEIGHTS_UNITS: Final = 300.0
CONTEXT_UNITS: Final = 1.0 / 700.0
PAIR_UNITS: Final = 1.0 / 50_000.0
#: Steps with so many prompt tokens are compared with each other, and steps without any; those between are not.
PREFILL_TOKENS: Final = 512
#: Over how long steps are averaged, and how many of them there must be.
AVERAGED_SECONDS: Final = 5.0
LEAST_STEPS: Final = 5.0
#: How many times as slow as the median, and by how many seconds a step, and of how many of its kind.
SLOWER: Final = 3.0
SLOWER_SECONDS: Final = 0.01
LEAST_PEERS: Final = 3


class Mean:
    """Steps of one sort, fading with time: how many, their seconds and their work."""

    __slots__ = ("at", "seconds", "steps", "units")

    def __init__(self) -> None:
        self.at = self.steps = self.seconds = self.units = 0.0

    def add(self, seconds: float, units: float, now: float) -> None:
        """One more step."""
        self.fade(now)
        self.steps += 1.0
        self.seconds += seconds
        self.units += units

    def fade(self, now: float) -> None:
        """Weigh what there is as of now."""
        rest = exp((self.at - now) / AVERAGED_SECONDS)
        self.at = now
        self.steps *= rest
        self.seconds *= rest
        self.units *= rest


class Pace:
    """The steps of one replica, apart those that compute prompts and those that only decode."""

    __slots__ = ("_decoding", "_prefilling")

    def __init__(self) -> None:
        self._decoding = Mean()
        self._prefilling = Mean()

    def note(self, work: Work, now: float) -> None:
        """The engine has done a step."""
        units = WEIGHTS_UNITS + work.sequences + CONTEXT_UNITS * work.context
        if not work.prefill_tokens:
            self._decoding.add(work.us / 1e6, units, now)
        elif work.prefill_tokens >= PREFILL_TOKENS:
            units += work.prefill_tokens + PAIR_UNITS * work.prefill_pairs
            self._prefilling.add(work.us / 1e6, units, now)

    def means(self, now: float) -> tuple[Mean, Mean]:
        """Both sorts, as of now."""
        self._decoding.fade(now)
        self._prefilling.fade(now)
        return self._decoding, self._prefilling


def slow_ones(paces: Mapping[str, Pace], now: float) -> dict[str, str]:
    """Of replicas of one kind, by id, those that are slow beside the others, and how slow in a few words."""
    found: dict[str, str] = {}
    sorts = zip(("decoding", "prefill"), zip(*(pace.means(now) for pace in paces.values()), strict=True), strict=True)
    for name, means in sorts:
        known = {id_: mean for id_, mean in zip(paces, means, strict=True) if mean.steps >= LEAST_STEPS}
        if len(known) < LEAST_PEERS:
            continue
        usual = median(mean.seconds / mean.units for mean in known.values())
        for id_, mean in known.items():
            expected = usual * mean.units
            excess = (mean.seconds - expected) / mean.steps
            if mean.seconds > SLOWER * expected and excess > SLOWER_SECONDS:
                found[id_] = f"its {name} steps take {mean.seconds / expected:.1f} times as long as its peers'"
    return found
