"""Rounds that look at host groups and carry out what `replicas.reshape.decide` wants, in virtual time."""

from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Final

import msgspec

from loadtest.simulation.reshape.grouped_fleet import GroupedFleet
from loadtest.simulation.simulate import Simulation
from loadtest.simulation.simulated_replica import NEVER, Replica
from loadtest.simulation.simulated_requests import TimedRequest
from protos.reshape import Span
from protos.types import Work
from replicas.reshape.cost import Cost, Method, cost_of
from replicas.reshape.decide import Change, ReshapeSettings, decide
from replicas.reshape.held_up_timer import HeldUpTimer
from replicas.reshape.short_bound import short_bound
from replicas.reshape.snapshot import HostGroup, ReshapeSnapshot, ShapedReplica, Width
from replicas.reshape.width_rates import rate_of

#: Seconds between two rounds.
ROUND_SECONDS: Final = 0.25
#: Seconds over which the arrivals of long and of short requests are counted.
LONG_SECONDS: Final = 120.0
SHORT_SECONDS: Final = 30.0
DEFAULT_SETTINGS: Final = ReshapeSettings()
#: Learning rate of the mean lengths of short requests.
_RATE: Final = 0.02


class Changed(msgspec.Struct, frozen=True):
    """One change that was carried out, `at` seconds, and what it cost."""

    at: float
    change: Change
    seconds: float
    sent_bytes: float


class ReshapeRounds:
    """Groups that begin with the narrowest replicas, looked at every quarter of a second.

    `requests` are all that will arrive, of which it sees those that have. `method` says how engines move, and `dearer`
    multiplies what that costs.
    """

    def __init__(
        self,
        fleet: GroupedFleet,
        requests: Sequence[TimedRequest],
        settings: ReshapeSettings = DEFAULT_SETTINGS,
        method: Method = Method.OVERLAPPED,
        dearer: float = 1.0,
    ) -> None:
        self.changes: list[Changed] = []
        self._fleet, self._settings, self._method, self._dearer = fleet, settings, method, dearer
        self._coming = deque(requests)
        self._names = count()
        self._due = 0.0
        self._since = [-NEVER] * fleet.groups
        self._replicas: list[dict[Span, Replica]] = []
        self._long: deque[float] = deque()
        self._short: deque[float] = deque()
        self._lengths = [1000.0, 200.0]
        self._simulation: Simulation | None = None
        self._short_bound = short_bound(fleet.reshaped_limits[1].kv_tokens)

    def begin(self, simulation: Simulation) -> None:
        """Let the first replicas join."""
        self._simulation = simulation
        for group in range(self._fleet.groups):
            spans = Span(0, self._fleet.gpus).halves(1)
            self._replicas.append({span: self._fleet.replica(self._name(group, span), span) for span in spans})
            for replica in self._replicas[group].values():
                simulation.join(replica, 0.0)

    @property
    def due(self) -> float:
        """The time of the next round."""
        return self._due

    def hold(self, now: float) -> None:
        """Change what is to change."""
        self._due = now + ROUND_SECONDS
        while self._coming and self._coming[0].arrival <= now:
            self._arrived(self._coming.popleft())
        for change in decide(self._snapshot(now), self._settings, self._gpu_seconds):
            self._carry_out(change, now)

    def stepped(self, replica: Replica, works: Sequence[Work]) -> None:
        """Ignore steps: loads say enough."""

    def _arrived(self, request: TimedRequest) -> None:
        if request.prompt_tokens + request.output_tokens > self._short_bound:
            self._long.append(request.arrival)
            return
        self._short.append(request.arrival)
        for at, tokens in enumerate((request.prompt_tokens, request.output_tokens)):
            self._lengths[at] += _RATE * (tokens - self._lengths[at])

    def _snapshot(self, now: float) -> ReshapeSnapshot:
        simulation = self._simulation
        assert simulation is not None
        for arrivals, seconds in ((self._long, LONG_SECONDS), (self._short, SHORT_SECONDS)):
            while arrivals and arrivals[0] <= now - seconds:
                arrivals.popleft()
        waiters = simulation.waiters
        needs = [(w.timed.prompt_tokens + w.timed.output_tokens, w.timed.arrival) for w in waiters]
        long = [(need, since) for need, since in needs if need > self._short_bound]
        return ReshapeSnapshot(
            now,
            [self._group(group, now) for group in range(self._fleet.groups)],
            self._widths(),
            [need for need, _ in long],
            [since for _, since in long],
            len(self._short) / min(SHORT_SECONDS, max(now, ROUND_SECONDS)),
            self._queued(len(needs) - len(long)),
            len(self._long) / LONG_SECONDS,
        )

    def _group(self, group: int, now: float) -> HostGroup:
        replicas = tuple(_shaped(span, replica) for span, replica in sorted(self._replicas[group].items()))
        return HostGroup(f"g{group}", self._fleet.gpus, replicas, self._since[group])

    def _widths(self) -> dict[int, Width]:
        prompt, output = self._lengths
        return {
            width: Width(limits.kv_tokens, rate_of(self._fleet.timers[width], limits.kv_tokens, prompt, output) / width)
            for width, limits in self._fleet.reshaped_limits.items()
        }

    def _queued(self, waiting: int) -> bool:
        return waiting > 0 or any(replica.model.load.waiting for one in self._replicas for replica in one.values())

    def _gpu_seconds(self, group: HostGroup, replicas: tuple[ShapedReplica, ...], width: int) -> float:
        cost = self._cost(replicas, width)
        return cost.seconds * max(width, *(replica.span.width for replica in replicas))

    def _cost(self, replicas: Sequence[ShapedReplica], width: int) -> Cost:
        before, used = replicas[0].span.width, [replica.used for replica in replicas]
        # Of replicas of several widths, the narrowest have most to move.
        narrow = min(replica.span.width for replica in replicas)
        fullest = max(used) if width > narrow else used[0] * width // before
        cost = cost_of(
            self._fleet.model, self._fleet.gpu, narrow if width > narrow else before, width, fullest, self._method
        )
        return Cost(cost.seconds * self._dearer, cost.steps, cost.sent_bytes, cost.extra_bytes)

    def _carry_out(self, change: Change, now: float) -> None:
        simulation = self._simulation
        assert simulation is not None
        group = int(change.group[1:])
        there = self._replicas[group]
        old = [there.pop(span) for span in change.before]
        cost = self._cost(
            [_shaped(span, replica) for span, replica in zip(change.before, old, strict=True)], change.after[0].width
        )
        new = [
            self._fleet.replica(self._name(group, span), span, timer=HeldUpTimer(self._fleet.timers[span.width], cost))
            for span in change.after
        ]
        there.update(zip(change.after, new, strict=True))
        self._since[group] = now
        self.changes.append(Changed(now, change, cost.seconds, cost.sent_bytes))
        simulation.transform(old, new, now)

    def _name(self, group: int, span: Span) -> str:
        return f"g{group}-{span.start}-tp{span.width}-{next(self._names)}"


def _shaped(span: Span, replica: Replica) -> ShapedReplica:
    load, block = replica.model.load, replica.limits.tokens_per_block
    longest = max((leg.prompt + leg.limit for leg in replica.model.unfinished), default=0)
    return ShapedReplica(replica.id, span, (load.kv_blocks_used + load.kv_blocks_reserved) * block, longest)
