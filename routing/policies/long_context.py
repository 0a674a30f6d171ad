"""Amoeba's placement: long requests share the replicas with the most room, where room is reserved for them.

Algorithm 1 of "Amoeba" (also "Gyges"): short requests skip instances where room is reserved for a long one, and long
ones gather on few instances instead of forcing many to a wider shape. Here shapes are fixed: what the paper gets by
transforming instances must come from the configuration.
"""

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

from routing.contracts.policy import Decision, Left, ReplicaView, Report, Routed, RouteRequest, Stepped
from routing.contracts.units import Unit, units
from routing.policies.census import Census
from routing.policies.measures import PRESSURE, backlog, kv_capacity, kv_free, kv_need, pressure
from routing.policies.ranking import Ranking, RankingPolicy

#: Caches of replicas of one shape differ a little; from this share of the largest on they count as equal.
ALIKE: Final = 0.9
#: Learning rate of the expected need of a long request.
RATE: Final = 0.1
#: Largest share of a cache that is kept free for a long request.
MOST_RESERVED: Final = 0.5
#: Largest share of the fleet's GPUs for long requests, so that short ones find replicas without them.
MOST_HOSTS: Final = 0.5
#: Bound on remembered long requests in flight.
MOST_KNOWN: Final = 65_536


class LongContext(RankingPolicy):
    """Long requests go to hosts: the replicas with the largest KV caches, then the next ones up to half of the GPUs.

    In a fleet of one shape they are half of it. A host takes long requests only when those before it have no room.
    """

    measures: ClassVar[tuple[str, ...]] = ("waits_for_room", "apart", *PRESSURE)

    def __init__(self, long_tokens: int) -> None:
        """A request is long when its prompt and expected answer have at least `long_tokens` tokens."""
        super().__init__()
        self._long_tokens = long_tokens
        self._need = float(long_tokens)
        self._census = Census()
        self._hosts: frozenset[str] = frozenset()
        self._hosts_version = -1
        #: Replica of each of this worker's long requests by request id, and their number per replica.
        self._where: dict[str, str] = {}
        self._long: Counter[str] = Counter()

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Return a host for a long request; for a short one any replica with room besides the reserve."""
        found = units(candidates)
        self._census.note([unit.replica for unit in found], request.now)
        if self._hosts_version != self._census.version:
            self._hosts, self._hosts_version = self._hosts_of(found), self._census.version
        return self.choose(found, self.rank(found, request))

    def observe(self, report: Report) -> None:
        """Follow which replicas have long requests and learn how much these need."""
        if isinstance(report, Stepped):
            self._census.refresh(report.view)
        elif isinstance(report, Left):
            self._census.left(report.replica_id)
            self._long.pop(report.replica_id, None)
            self._where = {name: where for name, where in self._where.items() if where != report.replica_id}
        elif self._is_long(report.request):
            # A migrated request is routed again before it ends.
            self._leave(report.request.request_id)
            if isinstance(report, Routed):
                replica = report.decision.replica
                self._where[report.request.request_id] = replica.id
                self._long[replica.id] += 1
                self._need += RATE * (kv_need(replica, report.request) - self._need)
                if len(self._where) > MOST_KNOWN:
                    self._leave(next(iter(self._where)))

    def _leave(self, request_id: str) -> None:
        replica_id = self._where.pop(request_id, None)
        if replica_id is not None:
            self._long[replica_id] -= 1

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Rank hosts by room, then by other long requests; for short requests units with room by pressure."""
        current = self._hosts_version == self._census.version and self._census.knows(unit.replica for unit in found)
        hosts = self._hosts if current else self._hosts_of(found)
        ranked = self._rank_long if self._is_long(request) else self._rank_short
        return ranked(found, request, hosts)

    def _rank_long(self, found: Sequence[Unit], request: RouteRequest, hosts: frozenset[str]) -> Ranking:
        needs = [kv_need(unit.replica, request) for unit in found]
        able = [place for place, unit in enumerate(found) if kv_capacity(unit.replica) >= needs[place]]
        able = able or list(range(len(found)))  # none has the capacity, or none reports it: the engine will refuse
        inside = [place for place in able if found[place].replica.id in hosts]
        reason = "long request, with others" if inside else "long request, no host is free"
        values: list[tuple[float, ...] | None] = [None] * len(found)
        for place in inside or able:
            unit = found[place]
            waits = kv_free(unit.replica) < needs[place]
            # Avoid joining a long request whose prompt is still being computed: the new one would wait for it.
            together = self._long[unit.replica.id] > 0 and backlog(unit.view) < self._long_tokens
            values[place] = (float(waits), float(not together), *pressure(unit.view))
        excluded = {
            place: "too small" if place not in able else "not for long requests"
            for place, value in enumerate(values)
            if value is None
        }
        return Ranking(values, reason, excluded=excluded)

    def _rank_short(self, found: Sequence[Unit], request: RouteRequest, hosts: frozenset[str]) -> Ranking:
        values: list[tuple[float, ...] | None] = []
        excluded: dict[int, str] = {}
        for place, unit in enumerate(found):
            replica = unit.replica
            if replica.id in hosts:
                reserve = min(self._need, MOST_RESERVED * kv_capacity(replica))
                if kv_free(replica) - kv_need(replica, request) < reserve:
                    values.append(None)
                    excluded[place] = "room kept for long requests"
                    continue
            values.append((0.0, 0.0, *pressure(unit.view)))
        if len(excluded) == len(found):
            return Ranking([(1.0, 0.0, *pressure(unit.view)) for unit in found], "only room kept for long requests")
        return Ranking(values, "short request, least loaded", excluded=excluded)

    def _is_long(self, request: RouteRequest) -> bool:
        output = min(request.expected_output, request.max_tokens)
        return request.prompt_tokens + request.n * output >= self._long_tokens

    def _hosts_of(self, found: Sequence[Unit]) -> frozenset[str]:
        """Return the ids of the replicas that take long requests, the same in every worker."""
        views = self._census.with_candidates(unit.replica for unit in found)
        sized = [(kv_capacity(view) or view.shape.gpus, view.id, view.shape.gpus) for view in views]
        sized.sort(key=lambda entry: (-entry[0], entry[1]))
        alike = ALIKE * sized[0][0]
        uniform = sized[-1][0] >= alike
        most = MOST_HOSTS * sum(gpus for *_, gpus in sized)
        hosts: list[str] = []
        taken = 0
        for size, id_, gpus in sized:
            taken += gpus
            if hosts and taken > most and (uniform or size < alike):
                break
            hosts.append(id_)
        return frozenset(hosts)
