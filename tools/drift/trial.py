"""One trial: a reference of a week, and then windows."""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from observability.drift.features import FEATURES
from observability.drift.reference import Layout, Reference
from tools.drift.traffic import Change, Traffic

LAYOUT = Layout()
_Slices = deque[tuple[int, dict[str, dict[str, int]]]]


@dataclass
class Tally:
    """Windows by width, and those of them that were told as drifted; drifts by feature and width."""

    windows: Counter[int] = field(default_factory=Counter)
    drifted: Counter[int] = field(default_factory=Counter)
    by_feature: Counter[tuple[str, int]] = field(default_factory=Counter)


class Trial:
    """Traffic with its references. Changes may be made to `traffic` on the way."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self._slices = traffic.slices()
        found = [next(self._slices) for _ in range(LAYOUT.slices)]
        self._references = {
            feature.name: Reference(
                feature.measure, LAYOUT, 0, {number: counts[feature.name] for number, counts in found}
            )
            for feature in FEATURES
        }
        self._last: _Slices = deque(maxlen=max(LAYOUT.widths))

    def tally(self, windows: int, false_alarms: float) -> Tally:
        """Look at so many windows of an hour, none of which shares a slice with another, and at the wider ones."""
        tally = Tally()
        for width, drifted in self._looks(windows * min(LAYOUT.widths), false_alarms):
            tally.windows[width] += 1
            tally.drifted[width] += bool(drifted)
            tally.by_feature.update((feature, width) for feature in drifted)
        return tally

    def hours_until(self, change: Change, feature: str, most_hours: int, false_alarms: float) -> float | None:
        """Make a change; returns the hours until a window of any width tells it in a feature, None: it is not told."""
        self.traffic.change = change
        for quarter in range(1, 4 * most_hours + 1):
            self._last.append(next(self._slices))
            if any(feature in self._drifted(width, false_alarms) for width in LAYOUT.widths):
                return quarter / 4
        return None

    def _looks(self, slices: int, false_alarms: float) -> Iterator[tuple[int, list[str]]]:
        for passed in range(1, slices + 1):
            self._last.append(next(self._slices))
            for width in LAYOUT.widths:
                if passed % width == 0:
                    yield width, self._drifted(width, false_alarms)

    def _drifted(self, width: int, false_alarms: float) -> list[str]:
        if len(self._last) < width:
            return []
        window = list(self._last)[-width:]
        drifted = []
        for name, reference in self._references.items():
            counts = {number: slice_[name] for number, slice_ in window}
            found = reference.compare(counts, width, false_alarms / len(FEATURES))
            if found is not None and found.drifted:
                drifted.append(name)
        return drifted
