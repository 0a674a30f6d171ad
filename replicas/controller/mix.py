"""The mix of a model's shapes that serves a rate at least cost: an exact search over small integers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from protos.types import Role
from replicas.controller.fleet_capacity import FleetCapacity
from replicas.controller.scaling_settings import PoolScaling

#: What a rate may fall short by, relative to it; rounding is not a replica.
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class PoolRange:
    """The counts that a pool may have, and the price of a replica and hour that decides between pools.

    Up to `spot_most` of those beyond `spot_after` cost `spot_price`; None: there is no preemptible capacity.
    """

    name: str
    role: Role
    least: int
    most: int
    price: float
    running: int = 0
    spot_price: float | None = None
    spot_after: int = 0
    spot_most: int = 0

    def cost(self, count: int) -> float:
        """Return what `count` replicas cost an hour."""
        if self.spot_price is None:
            return self.price * count
        spot = min(max(count - self.spot_after, 0), self.spot_most)
        return self.price * (count - spot) + self.spot_price * spot

    @property
    def least_price(self) -> float:
        """What one replica more costs an hour at least."""
        return self.price if self.spot_price is None else min(self.price, self.spot_price)


def deciding_prices(pools: Sequence[PoolScaling]) -> dict[str, float]:
    """Return a price for each pool: unknown ones count as the dearest, by GPU, that is known; all unknown: the GPUs.

    What runs in fixed pools is paid for anyway.
    """
    scaled = [pool for pool in pools if not pool.fixed]
    dearest = max((pool.price / pool.shape.gpus for pool in scaled if pool.price is not None), default=1.0)
    prices = {pool.name: dearest * pool.shape.gpus if pool.price is None else pool.price for pool in scaled}
    return prices | {pool.name: 0.0 for pool in pools if pool.fixed}


def cheapest_mix(ranges: Sequence[PoolRange], capacity: FleetCapacity, rate: float) -> dict[str, int] | None:
    """Return the counts that serve `rate` at least cost; None where all that may run do not.

    Of equally cheap ones the mix is taken that is nearest to what runs, then the one with fewer replicas.
    """
    most = {pool.name: pool.most for pool in ranges}
    if not _serves(capacity, most, rate):
        return None
    search = _Search(ranges, capacity, rate)
    search.look()
    return search.best


class _Search:
    """Depth first over the pools, cheapest requests first; of the last pool of all, the least count that is enough."""

    def __init__(self, ranges: Sequence[PoolRange], capacity: FleetCapacity, rate: float) -> None:
        # The order matters to the search's time alone: what is good for its price leads to a good bound early.
        self._ranges = sorted(ranges, key=lambda pool: (-_worth(pool, capacity), pool.name))
        self._capacity, self._rate = capacity, rate
        self._counts = {pool.name: pool.least for pool in ranges}
        self._most = {pool.name: pool.most for pool in ranges}
        #: What one more replica adds at most; pairs are not bounded so, since each of both sides adds nothing alone.
        self._bounds = (
            {pool.name: capacity.most(pool.name) for pool in ranges}
            if all(pool.role is Role.BOTH for pool in ranges) and all(capacity.most(pool.name) > 0 for pool in ranges)
            else {}
        )
        self._key: tuple[float, int, int, tuple[int, ...]] | None = None
        self.best: dict[str, int] | None = None

    def look(self, depth: int = 0, cost: float = 0.0) -> None:
        """Look through the counts of the pools from `depth` on, where those before it cost `cost`."""
        if self._key is not None and round(self._least_cost(depth, cost), 9) > self._key[0]:
            return
        if depth == len(self._ranges):
            self._take(cost)
            return
        pool = self._ranges[depth]
        low = self._least_enough(depth)
        if low is None:
            return
        if depth == len(self._ranges) - 1:
            self._counts[pool.name] = low
            self._take(cost + pool.cost(low))
            # A mix of the same cost may be nearer to what runs where a price is 0.
            if pool.price == 0 and pool.running > low:
                self._counts[pool.name] = min(pool.running, pool.most)
                self._take(cost)
        else:
            high = self._alone_enough(depth)
            for count in range(high, low - 1, -1):
                self._counts[pool.name] = count
                self.look(depth + 1, cost + pool.cost(count))
        self._counts[pool.name] = pool.least

    def _least_cost(self, depth: int, cost: float) -> float:
        """What a mix costs at least with the counts of the pools before `depth`: as if parts of replicas ran."""
        rest = self._ranges[depth:]
        cost += sum(pool.cost(pool.least) for pool in rest)
        if not self._bounds:
            return cost
        missing = self._rate - sum(count * self._bounds[name] for name, count in self._counts.items())
        cheapest = min((pool.least_price / self._bounds[pool.name] for pool in rest), default=0.0)
        return cost + max(0.0, missing) * cheapest

    def _least_enough(self, depth: int) -> int | None:
        """The least count of a pool with which, and with all that later pools may have, the rate is served."""
        pool = self._ranges[depth]
        counts = {**self._counts, **{later.name: later.most for later in self._ranges[depth + 1 :]}}
        return self._bisect(pool, counts)

    def _alone_enough(self, depth: int) -> int:
        """The count beyond which more of a pool do not help, as without any more of the later pools it is enough."""
        pool = self._ranges[depth]
        enough = self._bisect(pool, dict(self._counts))
        high = pool.most if enough is None else enough
        return max(high, min(pool.running, pool.most)) if pool.price == 0 else high

    def _bisect(self, pool: PoolRange, counts: dict[str, int]) -> int | None:
        low, high = pool.least, pool.most
        counts[pool.name] = high
        if not _serves(self._capacity, counts, self._rate):
            return None
        while low < high:
            counts[pool.name] = middle = (low + high) // 2
            if _serves(self._capacity, counts, self._rate):
                high = middle
            else:
                low = middle + 1
        return low

    def _take(self, cost: float) -> None:
        changes = sum(abs(self._counts[pool.name] - pool.running) for pool in self._ranges)
        counts = tuple(self._counts[pool.name] for pool in sorted(self._ranges, key=lambda pool: pool.name))
        key = (round(cost, 9), changes, sum(counts), counts)
        if self._key is None or key < self._key:
            self._key, self.best = key, dict(self._counts)


def best_within(
    ranges: Sequence[PoolRange], capacity: FleetCapacity, rate: float, budget: float
) -> tuple[dict[str, int], float]:
    """Return the mix that serves most of `rate` for at most `budget` an hour, and what it serves.

    The minima run whatever they cost. Rates are searched by halving: more is never cheaper.
    """
    least = {pool.name: pool.least for pool in ranges}
    most = capacity.rate({pool.name: pool.most for pool in ranges})
    best, low, high = least, min(capacity.rate(least), rate), min(rate, most)
    for _ in range(12):
        middle = (low + high) / 2
        mix = cheapest_mix(ranges, capacity, middle)
        if mix is not None and cost(mix, ranges) <= budget + 1e-9:
            best, low = mix, middle
        else:
            high = middle
    return best, min(rate, capacity.rate(best))


def cost(counts: Mapping[str, int], ranges: Sequence[PoolRange]) -> float:
    """Return what counts cost an hour."""
    return sum(pool.cost(counts[pool.name]) for pool in ranges)


def _serves(capacity: FleetCapacity, counts: Mapping[str, int], rate: float) -> bool:
    return capacity.rate(counts) >= rate * (1.0 - _TOLERANCE)


def _worth(pool: PoolRange, capacity: FleetCapacity) -> float:
    return capacity.most(pool.name) / max(pool.least_price, 1e-9)
