"""A census of a model's replicas, including those that are no candidates now because they have no room."""

from collections.abc import Iterable, Sequence
from typing import Final

from routing.contracts.policy import ReplicaView

#: Seconds after which a replica that was not noted again counts as gone.
KEPT_SECONDS: Final = 10.0


class Census:
    """Keeps every replica's last view for a while. Bounded by the fleet: views not noted again are dropped."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[ReplicaView, float]] = {}
        #: Changes whenever a replica joins, leaves or changes its number of KV blocks.
        self.version = 0

    def note(self, candidates: Sequence[ReplicaView], now: float) -> None:
        """Note the present candidates; `now` in seconds on the requests' clock."""
        seen = self._seen
        for view in candidates:
            known = seen.get(view.id)
            if known is None or not _alike(known[0], view):
                self.version += 1
            seen[view.id] = (view, now)
        if len(seen) > len(candidates):
            for gone in [id_ for id_, (_, at) in seen.items() if now - at > KEPT_SECONDS]:
                del seen[gone]
                self.version += 1

    def refresh(self, view: ReplicaView) -> None:
        """Update the load of a known replica without extending its time."""
        known = self._seen.get(view.id)
        if known is not None:
            self.version += not _alike(known[0], view)
            self._seen[view.id] = (view, known[1])

    def left(self, replica_id: str) -> None:
        """Drop a replica that is gone, or whose GPU belongs to a wider one."""
        if self._seen.pop(replica_id, None) is not None:
            self.version += 1

    def knows(self, candidates: Iterable[ReplicaView]) -> bool:
        """Whether noting these would leave the version unchanged."""
        seen = self._seen
        return all(view.id in seen and _alike(seen[view.id][0], view) for view in candidates)

    def with_candidates(self, candidates: Iterable[ReplicaView]) -> list[ReplicaView]:
        """Return every replica once: the candidates' current views, then the other known ones. Changes nothing."""
        fleet = {id_: view for id_, (view, _) in self._seen.items()}
        fleet.update((view.id, view) for view in candidates)
        return list(fleet.values())


def _alike(one: ReplicaView, two: ReplicaView) -> bool:
    return one.load.kv_blocks_total == two.load.kv_blocks_total and one.shape == two.shape
