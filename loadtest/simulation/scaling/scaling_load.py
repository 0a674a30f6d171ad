"""A load for a fleet that scales: rates over time, lengths, and the targets that hold for it."""

import csv
import random
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

import msgspec

from loadtest.simulation.scaling.load_lengths import Lengths, LoadError
from loadtest.simulation.simulated_requests import TimedRequest
from replicas.controller.scaling_settings import Slo


class RateCurve(msgspec.Struct, frozen=True):
    """Requests per second from each of `starts` on, in seconds, until `end`.

    With `smooth` the rate goes in straight lines from the middle of one window to that of the next, else in steps.
    """

    starts: Sequence[float]
    rates: Sequence[float]
    end: float
    smooth: bool = False

    def at(self, time: float) -> float:
        """Return the rate at a time; that of the first or last window outside of the curve."""
        place = max(0, bisect_right(self.starts, time) - 1)
        if not self.smooth:
            return self.rates[place]
        middle = self._middle(place)
        other = place + 1 if time >= middle else place - 1
        if not 0 <= other < len(self.rates):
            return self.rates[place]
        part = (time - middle) / (self._middle(other) - middle)
        return self.rates[place] + part * (self.rates[other] - self.rates[place])

    @property
    def peak(self) -> float:
        """The highest rate."""
        return max(self.rates)

    @property
    def requests(self) -> float:
        """Expected requests in all."""
        ends = (*self.starts[1:], self.end)
        return sum(rate * (end - start) for rate, start, end in zip(self.rates, self.starts, ends, strict=True))

    def scaled(self, factor: float) -> "RateCurve":
        """Return the curve with all rates multiplied."""
        return msgspec.structs.replace(self, rates=tuple(rate * factor for rate in self.rates))

    def cut(self, start: float, end: float) -> "RateCurve":
        """Return a part of the curve, whose time begins at 0."""
        places = [at for at, time in enumerate(self.starts) if start <= time < end]
        return RateCurve(
            tuple(self.starts[at] - start for at in places),
            tuple(self.rates[at] for at in places),
            min(self.end, end) - start,
            self.smooth,
        )

    def _middle(self, place: int) -> float:
        end = self.starts[place + 1] if place + 1 < len(self.starts) else self.end
        return (self.starts[place] + end) / 2


class ScalingLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A load. `history` is what was before it, on the same clock's scale, its end at the load's start."""

    name: str
    curve: RateCurve
    lengths: Lengths
    slo: Slo = Slo()
    history: RateCurve | None = None

    def requests(self, seed: int) -> list[TimedRequest]:
        """Draw the requests: a Poisson process whose rate follows the curve."""
        rng = random.Random(seed)
        curve, most = self.curve, self.curve.peak
        drawn = []
        now = 0.0
        while most > 0 and (now := now + rng.expovariate(most)) < curve.end:
            if rng.random() * most < curve.at(now):
                drawn.append(TimedRequest(now, *self.lengths.draw(rng)))
        return drawn


def read_rates(path: Path) -> RateCurve:
    """Read a CSV whose columns include start_s and requests_per_s, in windows of equal length.

    Raises:
        LoadError: The file cannot be read, or a line is not of this form.
    """
    starts: list[float] = []
    rates: list[float] = []
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            for number, row in enumerate(csv.DictReader(lines), 2):
                try:
                    start, rate = float(row["start_s"]), float(row["requests_per_s"])
                except (KeyError, TypeError, ValueError) as error:
                    raise LoadError(f"{path}:{number}: expected start_s and requests_per_s") from error
                if not 0 <= rate < 1e9 or (starts and start <= starts[-1]):
                    raise LoadError(f"{path}:{number}: start_s ascends, requests_per_s is not negative")
                starts.append(start)
                rates.append(rate)
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{path}: cannot be read: {error}") from error
    if len(starts) < 2:
        raise LoadError(f"{path}: has less than two windows")
    first = starts[0]
    end = 2 * starts[-1] - starts[-2] - first
    return RateCurve(tuple(start - first for start in starts), tuple(rates), end, smooth=True)
