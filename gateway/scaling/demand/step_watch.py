"""Watch the steps that the engines of one model report to a worker: their times, and how busy the engines are."""

from collections import deque
from collections.abc import Callable
from typing import Final

from protos.types import Work
from routing.contracts.policy import ReplicaView
from routing.estimates.replica_class import ReplicaClasses
from routing.estimates.step_model import LearnedSteps

#: Seconds over which busy time is counted.
BUSY_SECONDS: Final = 30.0

_OnWork = Callable[[ReplicaView, Work], None]
_OnLeft = Callable[[str], None]


class StepWatch:
    """Learns step times by pool, whatever policy routes, by the model that the default policy routes with."""

    def __init__(self, on_work: _OnWork, on_left: _OnLeft) -> None:
        """`on_work` and `on_left` took the fleet's reports so far, and still get them.

        `worked` and `left` take their places.
        """
        self._on_work = on_work
        self._on_left = on_left
        self._classes = ReplicaClasses()
        self._views: dict[str, ReplicaView] = {}
        self._busy: dict[str, int] = {}
        #: By pool: times, and the microseconds of work until then.
        self._samples: dict[str, deque[tuple[float, int]]] = {}

    @property
    def pools(self) -> set[str]:
        """The pools whose engines have reported steps."""
        return set(self._views)

    def worked(self, view: ReplicaView, work: Work) -> None:
        """Take a step that an engine reports."""
        pool = view.pool
        self._views[pool] = view
        self._busy[pool] = self._busy.get(pool, 0) + work.us
        self._classes.of(view).learn(work)
        self._on_work(view, work)

    def left(self, replica_id: str) -> None:
        """Drop a replica that is gone, or of another shape from now on."""
        self._classes.left(replica_id)
        self._on_left(replica_id)

    def learned(self, pool: str) -> LearnedSteps | None:
        """Return the learned step times of a pool, None before its first step."""
        view = self._views.get(pool)
        if view is None:
            return None
        model = self._classes.of(view).model
        return model.learned if model.steps else None

    def occupancy(self, pool: str, replicas: int, now: float) -> float | None:
        """The busy share of the time of a pool's `replicas`, 0 to 1; None: none has reported steps.

        Call it about once a second.
        """
        if pool not in self._views:
            return None
        samples = self._samples.setdefault(pool, deque())
        samples.append((now, self._busy[pool]))
        while len(samples) > 2 and now - samples[1][0] >= BUSY_SECONDS:
            samples.popleft()
        since, before = samples[0]
        if not replicas or now <= since:
            return 0.0
        return min((self._busy[pool] - before) * 1e-6 / ((now - since) * replicas), 1.0)
