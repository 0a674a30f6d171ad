"""A sink that counts the features of drift in the records of a worker's ended requests."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.rollouts.drift.subject import Subject
from observability.drift.features import FEATURES
from observability.record import RequestRecord

#: Versions of a model that are counted by themselves: what replicas report is not bounded.
MOST_VERSIONS: Final = 16
_INPUT: Final = [feature for feature in FEATURES if feature.side == "input"]
_OUTPUT: Final = [feature for feature in FEATURES if feature.side == "output"]

#: By subject: counts by feature and bin.
Pending = dict[Subject, Counter[tuple[str, str]]]


class DriftCounter:
    """The counts of one worker, until they are taken."""

    def __init__(self, days: Mapping[str, int]) -> None:
        """`days` of each model's reference, of the models that have drift."""
        self._pending: Pending = {}
        self.use(days)

    def use(self, days: Mapping[str, int]) -> None:
        """Count these models from now on."""
        self._days = dict(days)
        self._versions: dict[str, set[str]] = {model: set() for model in days}

    def take(self, records: Sequence[RequestRecord]) -> None:
        """Count requests that a replica got, and the answers that came to an end."""
        for record in records:
            days = self._days.get(record.model)
            if days is None or not record.sent:
                continue
            counts = self._of(Subject(record.model, "input", "", days))
            for feature in _INPUT:
                counts[feature.name, feature.bin_of(record)] += 1
            versions = self._versions[record.model]
            if record.finish and (record.version in versions or len(versions) < MOST_VERSIONS):
                versions.add(record.version)
                counts = self._of(Subject(record.model, "output", record.version, days))
                for feature in _OUTPUT:
                    counts[feature.name, feature.bin_of(record)] += 1

    async def aclose(self) -> None:
        """Nothing is open."""

    def drain(self) -> Pending:
        """Take what was counted since the last time."""
        pending, self._pending = self._pending, {}
        return pending

    def give_back(self, pending: Pending) -> None:
        """Count again what could not be kept."""
        for subject, counts in pending.items():
            self._of(subject).update(counts)

    def _of(self, subject: Subject) -> Counter[tuple[str, str]]:
        counts = self._pending.get(subject)
        if counts is None:
            counts = self._pending[subject] = Counter()
        return counts
