"""The replica with the least work for its size."""

from collections.abc import Sequence

from routing.policy import Decision, ReplicaView, RouteRequest


def pressure(view: ReplicaView) -> tuple[float, float]:
    """Requests per GPU, then the share of KV blocks in use.

    The engine's report counts every worker's requests but is one step old; what this worker sent since is added.
    """
    load = view.load
    requests = load.running + load.waiting + view.sent
    kv_use = load.kv_blocks_used / load.kv_blocks_total if load.kv_blocks_total else 0.0
    return (requests / view.shape.gpus, kv_use)


class LeastLoad:
    """Ties go round: equal candidates are taken in turn, so that workers do not all start with the first."""

    def __init__(self) -> None:
        self._turn = 0

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """The candidate under the least pressure."""
        del request
        pressures = [pressure(view) for view in candidates]
        least = min(pressures)
        tied = [view for view, value in zip(candidates, pressures, strict=True) if value == least]
        self._turn += 1
        return Decision(tied[self._turn % len(tied)])
