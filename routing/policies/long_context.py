"""Amoeba's placement: long requests stay together on the replicas with the most room, and find room there.

Algorithm 1 of "Amoeba" (also "Gyges") schedules with long contexts in view: short requests pass over instances where
room is reserved for a long one, and long ones gather on few instances instead of forcing many to a wider shape. Here
shapes are fixed: what the paper gets by transforming instances is the configuration's to provide.
"""

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

from routing.contracts.policy import Decision, Left, ReplicaView, Report, Routed, RouteRequest, Stepped
from routing.contracts.units import Unit, units
from routing.policies.census import Census
from routing.policies.measures import PRESSURE, backlog, kv_capacity, kv_free, kv_need, pressure
from routing.policies.ranking import Ranking, RankingPolicy

#: Caches of replicas of one shape differ a little; from this share of the largest on they count as alike.
ALIKE: Final = 0.9
#: How far one long request moves what the next is expected to need.
RATE: Final = 0.1
#: At most this share of a cache is kept free for a long request.
MOST_RESERVED: Final = 0.5
#: The part of the fleet's GPUs that long requests may take, so that short ones find replicas without them.
MOST_HOSTS: Final = 0.5
#: Long requests under way that are remembered.
MOST_KNOWN: Final = 65_536


class LongContext(RankingPolicy):
    """Hosts of long requests are the replicas with the largest KV caches, and the next ones up to half of the GPUs.

    In a fleet of one shape they are half of it. Each takes long requests only when those before it have no room.
    """

    measures: ClassVar[tuple[str, ...]] = ("waits_for_room", "apart", *PRESSURE)

    def __init__(self, long_tokens: int) -> None:
        """A request is long when its prompt and expected answer have that many tokens."""
        super().__init__()
        self._long_tokens = long_tokens
        self._need = float(long_tokens)
        self._census = Census()
        self._hosts: frozenset[str] = frozenset()
        self._hosts_version = -1
        #: Where this worker's long requests are, by request id, and how many each replica has.
        self._where: dict[str, str] = {}
        self._long: Counter[str] = Counter()

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """A host for a long request, and for a short one any replica with room beside the reserve."""
        found = units(candidates)
        self._census.note([unit.replica for unit in found], request.now)
        if self._hosts_version != self._census.version:
            self._hosts, self._hosts_version = self._hosts_of(found), self._census.version
        return self.choose(found, self.rank(found, request))

    def observe(self, report: Report) -> None:
        """Follow which replicas have long requests, and what these need."""
        if isinstance(report, Stepped):
            self._census.refresh(report.view)
        elif isinstance(report, Left):
            self._long.pop(report.replica_id, None)
            self._where = {name: where for name, where in self._where.items() if where != report.replica_id}
        elif self._is_long(report.request):
            # A request that moves is routed again before it ends.
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
        """Long requests: hosts by room, then company. Short ones: by pressure, where enough room is left."""
        current = self._hosts_version == self._census.version and self._census.knows(unit.replica for unit in found)
        hosts = self._hosts if current else self._hosts_of(found)
        ranked = self._rank_long if self._is_long(request) else self._rank_short
        return ranked(found, request, hosts)

    def _rank_long(self, found: Sequence[Unit], request: RouteRequest, hosts: frozenset[str]) -> Ranking:
        needs = [kv_need(unit.replica, request) for unit in found]
        able = [place for place, unit in enumerate(found) if kv_capacity(unit.replica) >= needs[place]]
        able = able or list(range(len(found)))  # none could ever, or none says so: the engine will
        inside = [place for place in able if found[place].replica.id in hosts]
        reason = "long request, with others" if inside else "long request, no host is free"
        values: list[tuple[float, ...] | None] = [None] * len(found)
        for place in inside or able:
            unit = found[place]
            waits = kv_free(unit.replica) < needs[place]
            # One whose prompt is still computed is no company: the newcomer would only wait for it.
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
        """The ids of the replicas that take long requests, the same in every worker."""
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
