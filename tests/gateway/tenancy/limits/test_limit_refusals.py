"""What a client reads when a limit refuses."""

import pytest

from gateway.tenancy.limits.limit_refusals import refusal_error
from gateway.tenancy.limits.limiter import duration
from protos.errors import QuotaExceeded, RateLimited
from tests.gateway.tenancy.limits.bench import plan_of

PLAN = plan_of("acme", rpm=1)


@pytest.mark.parametrize(
    ("refused", "message", "retry_after"),
    [
        (
            ("requests_per_minute", "tenant", 60, 60, 1, 12_345),
            "Rate limit reached for tenant 'acme' on requests per minute (RPM): limit 60, used 60, requested 1. "
            "Please try again in 13s.",
            12.345,
        ),
        (
            ("tokens_per_minute", "key:key_1", 900, 850, 100, 61_000),
            "Rate limit reached for API key 'key_1' on tokens per minute (TPM): limit 900, used 850, requested 100. "
            "Please try again in 1m1s.",
            61.0,
        ),
        (
            ("concurrent_requests", "model:m:7b", 4, 4, 1, 1000),
            "Rate limit reached for tenant 'acme' with model 'm:7b' on concurrent requests: limit 4, used 4, "
            "requested 1. Please try again in 1s.",
            1.0,
        ),
        (
            ("input_tokens_per_minute", "tenant", 100, 0, 101, -1),
            "Request too large for tenant 'acme' on input tokens per minute: limit 100, requested 101.",
            None,
        ),
        (
            ("budget_in_use", "tenant", 5 * 10**9, 10**10, 1, 1000),
            "Requests under way may use what is left of the budget of tenant 'acme' ($5). Please try again in 1s.",
            1.0,
        ),
    ],
)
def test_a_refusal_names_the_limit_its_owner_and_when_to_try_again(
    refused: tuple[str, str, int, int, int, int], message: str, retry_after: float | None
) -> None:
    error = refusal_error(PLAN, refused)
    assert isinstance(error, RateLimited)
    assert (error.status, error.type, error.code) == (429, "rate_limit_exceeded", refused[0])
    assert error.message == message
    assert error.retry_after == retry_after
    assert error.retryable == (retry_after is not None)


@pytest.mark.parametrize(
    ("spent", "least", "period", "message"),
    [
        (10**10, 1, 2, "The monthly budget of tenant 'acme' is spent: $10 of $10. It begins anew in 60m0s."),
        (
            10**10 + 5 * 10**6,
            1,
            1,
            "The daily budget of tenant 'acme' is spent: $10.005 of $10. It begins anew in 60m0s.",
        ),
        (
            9 * 10**9,
            2 * 10**9,
            2,
            "The monthly budget of tenant 'acme' has $1 left of $10, and this request costs at least $2. "
            "It begins anew in 60m0s.",
        ),
    ],
)
def test_a_spent_budget_is_not_to_be_tried_again(spent: int, least: int, period: int, message: str) -> None:
    error = refusal_error(PLAN, ("budget", "tenant", 10**10, spent, least, -1, 3_600_000, period))
    assert isinstance(error, QuotaExceeded)
    assert (error.status, error.type, error.code) == (429, "insufficient_quota", "insufficient_quota")
    assert not error.retryable
    assert error.message == message


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0ms"),
        (-5, "0ms"),
        (12, "12ms"),
        (999, "999ms"),
        (1000, "1s"),
        (1001, "2s"),
        (59_001, "1m0s"),
        (360_000, "6m0s"),
    ],
)
def test_durations_are_written_as_clients_read_them(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (999, "999ms"),
        (7_199_999, "120m0s"),
        (7_200_000, "2 hours"),
        (172_799_999, "48 hours"),
        (172_800_000, "2 days"),
        (31 * 86_400_000 - 1, "31 days"),
    ],
)
def test_what_is_left_of_a_period_can_be_read(milliseconds: int, text: str) -> None:
    error = refusal_error(PLAN, ("budget", "tenant", 10**10, 10**10, 1, -1, milliseconds, 2))
    assert error.message.endswith(f"It begins anew in {text}.")
