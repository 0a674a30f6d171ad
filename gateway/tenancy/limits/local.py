"""Limits counted in one worker, for fail_open tenants while the store is away.

The same windows as gateway/tenancy/limits/lua/windows.lua. Nothing is known here of other workers' use, nor of budgets.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from gateway.caching.lru import Lru
from gateway.tenancy.limits.limiter import Ask
from gateway.tenancy.limits.plan import Scope

SPAN_SECONDS = 60
MAX_SCOPES = 10_000

_RATES = (
    ("requests_per_minute", "requests", (0,)),
    ("tokens_per_minute", "tokens", (1, 2)),
    ("input_tokens_per_minute", "input_tokens", (1,)),
    ("output_tokens_per_minute", "output_tokens", (2,)),
)


class LocalWindow:
    """Requests, input and output tokens of the last minute, and the requests in flight."""

    __slots__ = ("_seconds", "in_flight", "totals")

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, list[int]]] = deque()
        self.totals = [0, 0, 0]
        self.in_flight = 0

    def slide(self, second: int) -> None:
        """Drop counts older than a minute."""
        while self._seconds and self._seconds[0][0] < second - SPAN_SECONDS:
            _, counts = self._seconds.popleft()
            for kind, count in enumerate(counts):
                self.totals[kind] -= count

    def charge(self, second: int, *counts: int) -> None:
        """Add counts at the current second."""
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append((second, [0, 0, 0]))
        for kind, count in enumerate(counts):
            self._seconds[-1][1][kind] += count
            self.totals[kind] += count

    def refund(self, second: int, *counts: int) -> None:
        """Subtract what was charged at `second`, unless it has left the window since."""
        for at, charged in self._seconds:
            if at == second:
                for kind, count in enumerate(counts):
                    charged[kind] -= count
                    self.totals[kind] -= count

    def wait(self, second: int, kinds: Sequence[int], amount: int) -> int:
        """Milliseconds until `amount` of these kinds has left the window."""
        for at, counts in self._seconds:
            amount -= sum(counts[kind] for kind in kinds)
            if amount <= 0:
                return (at + SPAN_SECONDS + 1 - second) * 1000
        return (SPAN_SECONDS + 1) * 1000


class LocalLimits:
    """Windows of a worker's scopes; beyond MAX_SCOPES the least recently used is evicted. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._windows: Lru[tuple[str, str], LocalWindow] = Lru(MAX_SCOPES)

    def take(self, ask: Ask, output: int) -> int | Sequence[Any]:
        """Reserve from all windows and return the second, or reserve nothing and return the script's refusal."""
        second = int(self._clock())
        windows = [(scope, self._window(ask.plan.tenant, scope.name, second)) for scope in ask.plan.scopes]
        for scope, window in windows:
            refused = _refusal(scope, window, second, ask.input, output)
            if refused is not None:
                return refused
        for _, window in windows:
            window.in_flight += 1
            window.charge(second, 1, ask.input, output)
        return second

    def give_back(self, taken: int, ask: Ask, output: int, used: tuple[int, int, int]) -> None:
        """End what `take` reserved at the second `taken`; `used` is (requests, input tokens, output tokens)."""
        second = int(self._clock())
        more = [after - before for after, before in zip(used, (1, ask.input, output), strict=True)]
        for scope in ask.plan.scopes:
            window = self._window(ask.plan.tenant, scope.name, second)
            window.in_flight = max(0, window.in_flight - 1)
            window.refund(taken, *(max(0, -count) for count in more))
            window.charge(second, *(max(0, count) for count in more))

    def _window(self, tenant: str, scope: str, second: int) -> LocalWindow:
        window = self._windows.get((tenant, scope))
        if window is None:
            window = LocalWindow()
            self._windows.put((tenant, scope), window)
        window.slide(second)
        return window


def _refusal(scope: Scope, window: LocalWindow, second: int, tokens: int, output: int) -> Sequence[Any] | None:
    if 0 < scope.concurrency <= window.in_flight:
        return ("concurrent_requests", scope.name, scope.concurrency, window.in_flight, 1, 1000)
    asked = (1, tokens + output, tokens, output)
    for (code, field, kinds), amount in zip(_RATES, asked, strict=True):
        limit = getattr(scope, field)
        used = sum(window.totals[kind] for kind in kinds)
        if limit and amount > limit:
            return (code, scope.name, limit, used, amount, -1)
        if limit and used + amount > limit:
            return (code, scope.name, limit, used, amount, window.wait(second, kinds, used + amount - limit))
    return None
