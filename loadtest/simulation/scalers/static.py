"""A constant number of replicas: static provisioning, which is what scalers are measured by."""

from replicas.controller.decision import Decision, PoolDecision
from replicas.controller.snapshot import Snapshot


class Static:
    """Keeps `replicas` of one pool."""

    def __init__(self, pool: str, replicas: int) -> None:
        self._decision = PoolDecision(wanted=replicas, needed=replicas, reason="static")
        self._pool = pool

    def decide(self, snapshot: Snapshot) -> Decision:
        """Return the constant."""
        return Decision(at=snapshot.now, pools={self._pool: self._decision}, cost=None, inputs={}, reasons=["static"])
