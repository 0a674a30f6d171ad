"""The measures of one version of a model in one rollout, merged over workers."""

import msgspec

from routing.rollouts.measures.slice import Slice

#: By age in seconds from which slices are merged to that many seconds: judging takes time for each.
_COARSER = ((600.0, 60), (10_800.0, 600), (86_400.0, 3600))


class Measures(msgspec.Struct):
    """Additive: the measures of several workers, or of several spans of time, are merged by addition.

    `slices` are by their begin in seconds since 1970, by when requests arrived.
    """

    slices: dict[int, Slice] = {}

    def merge(self, other: "Measures") -> None:
        """Add another's."""
        for begin, piece in other.slices.items():
            self.slices.setdefault(begin, Slice()).merge(piece)

    def coarser(self, now: float) -> "Measures":
        """Return them with old slices put together."""
        found = Measures()
        for begin, piece in self.slices.items():
            found.slices.setdefault(begin_of(begin, now), Slice()).merge(piece)
        return found

    def total(self, name: str, since: float = 0.0) -> int:
        """Return how often an event was counted, in the slices that begin at `since` (seconds since 1970) or later."""
        return sum(piece.counts.get(name, 0) for begin, piece in self.slices.items() if begin >= since)

    def histograms(self, measure: str) -> dict[int, dict[int, int]]:
        """Return the histograms of a measure's logarithms, by stratum."""
        found: dict[int, dict[int, int]] = {}
        for piece in self.slices.values():
            for stratum, buckets in piece.histograms.get(measure, {}).items():
                into = found.setdefault(stratum, {})
                for bucket, count in buckets.items():
                    into[bucket] = into.get(bucket, 0) + count
        return found

    @property
    def requests(self) -> int:
        """Requests that the version has answered or failed."""
        return self.total("requests")


def begin_of(begin: int, now: float) -> int:
    """Return the begin of the coarser slice that one of this begin belongs to at that age."""
    seconds = 1
    for age, width in _COARSER:
        if now - begin >= age:
            seconds = width
    return begin - begin % seconds
