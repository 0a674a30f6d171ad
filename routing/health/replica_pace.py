"""Finds replicas that are much slower than their peers at the same work."""

from collections.abc import Iterable, Mapping
from math import exp
from statistics import median
from typing import Final

from protos.types import Work

#: A step's work in units of one prompt token's arithmetic. Reading the weights costs as much as the arithmetic of some
#: 300 tokens: an H100 does 990 TFLOP/s (bf16, dense) and reads 3.35 TB/s, so 295 operations a byte. For Mixtral-8x7B
#: (13 G active parameters) a token of context costs 128 KiB to read and a pair 4 x 4096 x 32 operations of attention.
#: Rough is enough: peers are compared with each other, and only a difference of several times counts.
WEIGHTS_UNITS: Final = 300.0
CONTEXT_UNITS: Final = 1.0 / 700.0
PAIR_UNITS: Final = 1.0 / 50_000.0
#: Steps with at least this many prompt tokens are compared with each other, and so are steps without any; those between
#: are not.
PREFILL_TOKENS: Final = 512
#: Seconds over which steps are averaged, and the least number of steps.
AVERAGED_SECONDS: Final = 5.0
LEAST_STEPS: Final = 5.0
#: A replica is slow at this multiple of the median, at this many seconds per step more, with this many peers.
SLOWER: Final = 3.0
SLOWER_SECONDS: Final = 0.01
LEAST_PEERS: Final = 3
#: How long, in seconds, a replica must be much slower than its peers before it is ejected.
SLOW_SECONDS: Final = 5.0


class Mean:
    """Fading sums over steps of one sort: their number, seconds and work."""

    __slots__ = ("at", "seconds", "steps", "units")

    def __init__(self) -> None:
        self.at = self.steps = self.seconds = self.units = 0.0

    def add(self, seconds: float, units: float, now: float) -> None:
        """Add a step."""
        self.fade(now)
        self.steps += 1.0
        self.seconds += seconds
        self.units += units

    def fade(self, now: float) -> None:
        """Scale the sums down to `now`."""
        rest = exp((self.at - now) / AVERAGED_SECONDS)
        self.at = now
        self.steps *= rest
        self.seconds *= rest
        self.units *= rest


class Pace:
    """The pace of one replica, kept apart for steps that compute prompts and steps that only decode."""

    __slots__ = ("_decoding", "_prefilling")

    def __init__(self) -> None:
        self._decoding = Mean()
        self._prefilling = Mean()

    def note(self, work: Work, now: float) -> None:
        """Add a step of the engine."""
        units = WEIGHTS_UNITS + work.sequences + CONTEXT_UNITS * work.context
        if not work.prefill_tokens:
            self._decoding.add(work.us / 1e6, units, now)
        elif work.prefill_tokens >= PREFILL_TOKENS:
            units += work.prefill_tokens + PAIR_UNITS * work.prefill_pairs
            self._prefilling.add(work.us / 1e6, units, now)

    def means(self, now: float) -> tuple[Mean, Mean]:
        """Return the means of prefill and decode steps, faded to `now`."""
        self._decoding.fade(now)
        self._prefilling.fade(now)
        return self._decoding, self._prefilling


def slow_replicas(paces: Mapping[str, Pace], now: float) -> dict[str, str]:
    """Return the replicas that are slow among these peers, by id, with a short description."""
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


class SlowPeers:
    """Which replicas are slow among their peers, by id, and since when."""

    def __init__(self) -> None:
        self.since: dict[str, float] = {}

    def judged(self, kinds: Iterable[Mapping[str, Pace]], now: float) -> dict[str, str]:
        """Return the replicas that have been slow for SLOW_SECONDS, with a short description; they begin anew.

        `kinds` are the replicas that should be as fast as each other.
        """
        slow: dict[str, str] = {}
        for paces in kinds:
            if len(paces) >= LEAST_PEERS:
                slow |= slow_replicas(paces, now)
        self.since = {id_: self.since.get(id_, now) for id_ in slow}
        found = {id_: slow[id_] for id_, since in self.since.items() if now - since >= SLOW_SECONDS}
        for id_ in found:
            del self.since[id_]
        return found

    def forget(self, replica_id: str) -> None:
        """Forget a replica that is gone, or another one from now on."""
        self.since.pop(replica_id, None)
