"""The limits' scripts said again in plain Python, as slow and obvious as can be, for tests to compare with."""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gateway.tenancy.limits.plan import Plan, Scope
from tests.gateway.tenancy.limits.bench import TTL_MS

SPAN = 60
R, I, O = 0, 1, 2  # noqa: E741 (the kinds are named as in the script)
SILENCE_MS, GRACE_MS, LOOK_MS = 5000, 5000, 1000


@dataclass
class Lease:
    holder: str
    plan: Plan
    second: int
    input: int
    output: int
    n: int
    cost: int
    periods: list[str]


@dataclass
class Money:
    spent: int = 0
    reserved: int = 0


@dataclass
class Row:
    """Of the ledger: requests, input, cached, output, cost, refused requests, refused tokens."""

    counts: list[int] = field(default_factory=lambda: [0] * 7)


class Model:
    """One tenant's limits, leases, budgets and ledger."""

    def __init__(self) -> None:
        self.windows: dict[str, dict[int, list[int]]] = {}
        self.leases: dict[str, Lease] = {}
        self.budgets: dict[tuple[str, str], Money] = {}
        self.rows: dict[tuple[str, str], Row] = {}
        self.ends: dict[str, int] = {}
        self.learned: dict[str, float] = {}
        self.next_look: int | None = None

    def totals(self, scope: str, now_ms: int) -> list[int]:
        now = now_ms // 1000
        seconds = self.windows.setdefault(scope, {})
        return [sum(counts[kind] for at, counts in seconds.items() if at >= now - SPAN) for kind in (R, I, O)]

    def in_flight(self, scope: str) -> int:
        return sum(scope in [s.name for s in lease.plan.scopes] for lease in self.leases.values())

    def sweep(self, now_ms: int, own: str | None = None) -> None:
        if self.next_look is not None and now_ms < self.next_look:
            return
        if self.next_look is not None and now_ms > self.next_look + SILENCE_MS:
            self.next_look = now_ms + GRACE_MS
            return
        for holder in [h for h, end in self.ends.items() if h != own and end < now_ms]:
            for name in [name for name, lease in self.leases.items() if lease.holder == holder]:
                lease = self.leases[name]
                self.end(name, now_ms, (lease.input, 0, lease.output))
            del self.ends[holder]
        if self.next_look is not None or self.ends:
            self.next_look = now_ms + LOOK_MS

    def spoke(self, holder: str, now_ms: int) -> None:
        """What the end of a batch does for its holder."""
        if any(lease.holder == holder for lease in self.leases.values()):
            self.ends[holder] = now_ms + TTL_MS
            if self.next_look is None:
                self.next_look = now_ms + LOOK_MS
        else:
            self.ends.pop(holder, None)

    def estimate(self, plan: Plan, given: int, most: int, n: int, unknown: int) -> int:
        tokens = min(most, max(1, math.ceil(self.learned.get(plan.model, unknown) * n)))
        for scope in plan.scopes:
            if scope.tokens:
                tokens = min(tokens, max(1, scope.tokens - given))
            if scope.output_tokens:
                tokens = min(tokens, scope.output_tokens)
        return tokens

    def refusals(self, plan: Plan, given: int, output: int, now_ms: int) -> dict[tuple[str, str], int]:
        """Every limit that does not let a request in, and for how long; -1: for good."""
        found: dict[tuple[str, str], int] = {}
        for scope in plan.scopes:
            if 0 < scope.concurrency <= self.in_flight(scope.name):
                found[scope.name, "concurrent_requests"] = 1000
            for code, limit, kinds, asked in self._rates(scope, given, output):
                used = sum(self.totals(scope.name, now_ms)[kind] for kind in kinds)
                if limit and asked > limit:
                    found[scope.name, code] = -1
                elif limit and used + asked > limit:
                    found[scope.name, code] = self._wait(scope.name, kinds, used + asked - limit, now_ms)
        least = cost(plan, given, given if _cached_is_cheaper(plan) else 0, 1)
        for budget in plan.budgets:
            money = self.money(budget.scope, period_of(budget.period, now_ms))
            if money.spent + least > budget.limit:
                found[budget.scope, "budget"] = -1
            elif money.spent + money.reserved + least > budget.limit:
                found[budget.scope, "budget_in_use"] = 1000
        return found

    @staticmethod
    def _rates(scope: Scope, given: int, output: int) -> list[tuple[str, int, tuple[int, ...], int]]:
        return [
            ("requests_per_minute", scope.requests, (R,), 1),
            ("tokens_per_minute", scope.tokens, (I, O), given + output),
            ("input_tokens_per_minute", scope.input_tokens, (I,), given),
            ("output_tokens_per_minute", scope.output_tokens, (O,), output),
        ]

    def _wait(self, scope: str, kinds: tuple[int, ...], amount: int, now_ms: int) -> int:
        for at, counts in sorted(self.windows[scope].items()):
            if at >= now_ms // 1000 - SPAN:
                amount -= sum(counts[kind] for kind in kinds)
                if amount <= 0:
                    return (at + SPAN + 1) * 1000 - now_ms
        raise AssertionError("a window is full of nothing")

    def money(self, scope: str, period: str) -> Money:
        return self.budgets.setdefault((scope, period), Money())

    def row(self, plan: Plan) -> list[int]:
        return self.rows.setdefault((plan.model, plan.key_id), Row()).counts

    def charge(self, scope: str, second: int, requests: int, given: int, output: int) -> None:
        counts = self.windows.setdefault(scope, {}).setdefault(second, [0, 0, 0])
        for kind, count in enumerate((requests, given, output)):
            counts[kind] += count

    def open(self, name: str, holder: str, plan: Plan, given: int, output: int, n: int, now_ms: int) -> None:
        now, reserved = now_ms // 1000, cost(plan, given, 0, output)
        periods = [period_of(budget.period, now_ms) for budget in plan.budgets]
        for scope in plan.scopes:
            self.charge(scope.name, now, 1, given, output)
        for budget, period in zip(plan.budgets, periods, strict=True):
            self.money(budget.scope, period).reserved += reserved
        self.leases[name] = Lease(holder, plan, now, given, output, n, reserved, periods)

    def end(self, name: str, now_ms: int, used: tuple[int, int, int] | None, *, rejected: bool = False) -> bool:
        """`used` are input, cached and output tokens; None: nothing was used."""
        lease = self.leases.pop(name, None)
        if lease is None:
            return False
        now, plan = now_ms // 1000, lease.plan
        given, cached, output = used or (0, 0, 0)
        for scope in plan.scopes:
            less = [0 if used else -1, given - lease.input, output - lease.output]
            if lease.second >= now - SPAN:
                self.charge(scope.name, lease.second, *(min(0, count) for count in less))
            self.charge(scope.name, now, *(max(0, count) for count in less))
        price = cost(plan, given, cached, output)
        for budget, period in zip(plan.budgets, lease.periods, strict=True):
            money = self.money(budget.scope, period)
            money.reserved -= lease.cost
            money.spent += price
        if used:
            self._add(plan, 1, given, cached, output, price)
        elif rejected:
            self.reject(plan, lease.input)
        return True

    def book(self, plan: Plan, requests: int, given: int, cached: int, output: int, now_ms: int) -> None:
        for scope in plan.scopes:
            self.charge(scope.name, now_ms // 1000, requests, given, output)
        price = cost(plan, given, cached, output)
        for budget in plan.budgets:
            self.money(budget.scope, period_of(budget.period, now_ms)).spent += price
        self._add(plan, requests, given, cached, output, price)

    def reject(self, plan: Plan, given: int) -> None:
        row = self.row(plan)
        row[5] += 1
        row[6] += given

    def learn(self, plan: Plan, output: int, n: int) -> None:
        mean = self.learned.get(plan.model)
        new = output / n if mean is None else mean + 0.1 * (output / n - mean)
        self.learned[plan.model] = float(f"{new:.3f}")

    def _add(self, plan: Plan, *counts: int) -> None:
        row = self.row(plan)
        for place, count in enumerate(counts):
            row[place] += count


def period_of(kind: int, now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d" if kind == 1 else "%Y-%m")


def cost(plan: Plan, given: int, cached: int, output: int) -> int:
    """Nanodollars, halves rounded up."""
    price = plan.price
    cached_price = price.input if price.cached_input is None else price.cached_input
    return math.floor(
        (given - cached) * (1000 * price.input) + cached * (1000 * cached_price) + output * (1000 * price.output) + 0.5
    )


def _cached_is_cheaper(plan: Plan) -> bool:
    return plan.price.cached_input is not None and plan.price.cached_input < plan.price.input
