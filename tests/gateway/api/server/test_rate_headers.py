"""Headers of limits and of time, as OpenAI's clients write and read them."""

import pytest

from gateway.api.server.client_timeouts import read_timeout, request_timeout
from gateway.api.server.rate_headers import rate_headers
from gateway.tenancy.limits.limiter import Rate, Room
from protos.errors import InvalidRequest


def test_each_kind_of_limit_has_three_headers() -> None:
    rate = Rate(Room(60, 59, 1_000), Room(150_000, 0, 360_000))
    assert dict(rate_headers(rate)) == {
        b"x-ratelimit-limit-requests": b"60",
        b"x-ratelimit-remaining-requests": b"59",
        b"x-ratelimit-reset-requests": b"1s",
        b"x-ratelimit-limit-tokens": b"150000",
        b"x-ratelimit-remaining-tokens": b"0",
        b"x-ratelimit-reset-tokens": b"6m0s",
    }


def test_what_is_not_limited_has_none() -> None:
    assert rate_headers(None) == []
    assert rate_headers(Rate(Room(), Room())) == []
    assert dict(rate_headers(Rate(Room(), Room(7, 7, 0)))) == {
        b"x-ratelimit-limit-tokens": b"7",
        b"x-ratelimit-remaining-tokens": b"7",
        b"x-ratelimit-reset-tokens": b"0ms",
    }


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (b"30", 30.0),
        (b"1.5", 1.5),
        (b"1.5s", 1.5),
        (b"500ms", 0.5),
        (b"0.25ms", 0.00025),
        (b"999999999", 999_999_999.0),
    ],
)
def test_a_time_limit_for_the_whole_request(value: bytes | None, seconds: float | None) -> None:
    assert request_timeout(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"0",
        b"0ms",
        b"0.000s",
        b"-1",
        b"+1",
        b"1m",
        b"1e3",
        b"inf",
        b"nan",
        b"1,5",
        b" 1",
        b"1 s",
        b".5",
        b"5.",
        b"1234567890",
        b"\xd9\xa3",
        b"1\n",
    ],
)
def test_what_is_no_time_limit_is_refused_by_name(value: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        request_timeout(value)
    assert (caught.value.status, caught.value.param) == (400, "x-request-timeout")
    assert "x-request-timeout" in caught.value.message


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (b"600", 600.0),
        (b"600.0", 600.0),
        (b"0.5", 0.5),
        (b"", None),
        (b"None", None),
        (b"0", None),
        (b"-3", None),
        (b"nan", None),
        (b"inf", None),
        (b"1e999", None),
        (b"1" * 33, None),
        (b"\xff", None),
    ],
)
def test_a_clients_own_patience_is_taken_where_it_makes_sense(value: bytes | None, seconds: float | None) -> None:
    assert read_timeout(value) == seconds
