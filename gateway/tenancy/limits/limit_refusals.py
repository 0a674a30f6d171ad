"""Conversion of a limit's refusal to the client's error: which limit, whose, and when to retry."""

from collections.abc import Sequence
from typing import Any, Final

from gateway.config.models.price import NANO
from gateway.tenancy.limits.limiter import duration
from gateway.tenancy.limits.plan import Plan
from protos.errors import PenstockError, QuotaExceeded, RateLimited

_NAMES: Final = {
    "requests_per_minute": "requests per minute (RPM)",
    "tokens_per_minute": "tokens per minute (TPM)",
    "input_tokens_per_minute": "input tokens per minute",
    "output_tokens_per_minute": "output tokens per minute",
    "concurrent_requests": "concurrent requests",
}
_PERIODS: Final = {1: "daily", 2: "monthly"}


def refusal_error(plan: Plan, refused: Sequence[Any]) -> PenstockError:
    """`refused` is (limit, scope, its value, used, requested, ms to wait or -1); money in nanodollars.

    A budget adds the ms that its period lasts and its kind. A single request that is larger than a limit is told so.
    """
    limit, scope, value, used, asked, wait_ms = refused[:6]
    owner = _owner(plan, scope)
    if limit == "budget":
        period_ms, period = refused[6:8]
        state = f"is spent: {_usd(used)} of {_usd(value)}"
        if used < value:
            state = f"has {_usd(value - used)} left of {_usd(value)}, and this request costs at least {_usd(asked)}"
        return QuotaExceeded(f"The {_PERIODS[period]} budget of {owner} {state}. It begins anew in {_span(period_ms)}.")
    if limit == "budget_in_use":
        return RateLimited(
            f"Requests under way may use what is left of the budget of {owner} ({_usd(value)}). Please try again in "
            f"{duration(wait_ms)}.",
            code=limit,
            retry_after=wait_ms / 1000,
        )
    name = _NAMES[limit]
    if wait_ms < 0:
        return RateLimited(
            f"Request too large for {owner} on {name}: limit {value}, requested {asked}.",
            code=limit,
            retry_after=None,
        )
    return RateLimited(
        f"Rate limit reached for {owner} on {name}: limit {value}, used {used}, requested {asked}. "
        f"Please try again in {duration(wait_ms)}.",
        code=limit,
        retry_after=wait_ms / 1000,
    )


def _owner(plan: Plan, scope: str) -> str:
    kind, _, name = scope.partition(":")
    if kind == "tenant":
        return f"tenant '{plan.tenant}'"
    if kind == "key":
        return f"API key '{name}'"
    return f"tenant '{plan.tenant}' with model '{name}'"


def _span(milliseconds: int) -> str:
    """Format a duration in the two largest units, rounded up."""
    for unit, size in (("days", 86_400_000), ("hours", 3_600_000)):
        if milliseconds >= 2 * size:
            return f"{-(-milliseconds // size)} {unit}"
    return duration(milliseconds)


def _usd(nano: int) -> str:
    return f"${nano / NANO:,.6f}".rstrip("0").rstrip(".")
