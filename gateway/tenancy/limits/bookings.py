"""Use of requests that reserve nothing in the store, gathered by plan until it is booked there."""

import math
from collections.abc import Iterable, Sequence

import msgspec

from gateway.tenancy.limits.expected_output import UNKNOWN_OUTPUT, ExpectedOutput
from gateway.tenancy.limits.limiter import Usage
from gateway.tenancy.limits.plan import Plan

#: Requests, prompt tokens, cached ones, completion tokens, rejected requests, their tokens, nanodollars beside the
#: tokens' prices; and the answers, whose mean length is learned.
_Entry = tuple[int, int, int, int, int, int, int, int]


class Account(msgspec.Struct, eq=False):
    """The entries of one plan since the last fold, the mean output tokens of its answers (None: not known yet), and
    the number of open leases.
    """

    entries: list[_Entry]
    mean: float | None
    leases: int = 0


class BookedLease(msgspec.Struct, eq=False):
    """A lease without a record in the store. Its use is booked at its end."""

    account: Account
    input: int
    sequences: int
    output: int
    open: bool = True

    def settle(self, usage: Usage) -> None:
        """End the lease with the request's use."""
        if self.open:
            self.open = False
            account, completion = self.account, usage.completion
            account.leases -= 1
            answers = self.sequences if completion else 0
            account.entries.append((1, usage.prompt, usage.cached, completion, 0, 0, usage.extra, answers))
            if account.mean is None and answers:
                account.mean = completion / answers

    def release(self, *, rejected: bool = False) -> None:
        """End the lease without use; `rejected`: the gateway refused to run the request."""
        if self.open:
            self.open = False
            self.account.leases -= 1
            if rejected:
                self.account.entries.append((0, 0, 0, 0, 1, self.input, 0, 0))


class Bookings:
    """The accounts of one worker. Entries are summed in `take`, all at once, and not with every request."""

    def __init__(self) -> None:
        self._expected = ExpectedOutput()
        self._accounts: dict[Plan, Account] = {}
        #: By tenant and the plan's digest: plans that differ in nothing are booked together.
        self._sums: dict[tuple[str, str], tuple[Plan, Sequence[int]]] = {}

    def lease(self, plan: Plan, tokens: int, most: int, sequences: int) -> BookedLease:
        """Open a lease of `tokens` of prompt and at most `most` output tokens over its sequences."""
        account = self._accounts.get(plan)
        if account is None:
            account = self._accounts[plan] = Account([], self._expected.mean(plan))
        account.leases += 1
        mean = account.mean
        expected = math.ceil((UNKNOWN_OUTPUT if mean is None else mean) * sequences)
        return BookedLease(account, tokens, sequences, (expected or 1) if expected < most else most)

    def fold(self) -> None:
        """Add the entries up; drop the accounts that had none and have no lease. Called about once a second."""
        for plan, account in list(self._accounts.items()):
            if account.entries:
                *counts, answers = map(sum, zip(*account.entries, strict=True))
                account.entries.clear()
                name = (plan.tenant, plan.digest)
                known = self._sums.get(name)
                self._sums[name] = (plan, counts if known is None else _added(known[1], counts))
                if answers:
                    account.mean = self._expected.learn(plan, counts[3], answers)
            elif not account.leases:
                del self._accounts[plan]

    def take(self) -> Iterable[tuple[Plan, Sequence[int]]]:
        """Fold; return the sums since the last call by plan: requests, prompt tokens, cached ones, completion tokens,
        rejected requests and their tokens, nanodollars beside the tokens' prices.
        """
        self.fold()
        taken, self._sums = self._sums, {}
        return taken.values()


def _added(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]
