"""Errors and headers in Anthropic's form."""

import orjson
import pytest

from gateway.api.anthropic.errors import error_body, error_event
from gateway.api.anthropic.headers import rate_headers
from gateway.tenancy.limits.limiter import Rate, Room
from protos import errors


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.InvalidRequest, "invalid_request_error"),
        (errors.ContentFiltered, "invalid_request_error"),
        (errors.AuthenticationFailed, "authentication_error"),
        (errors.EndpointNotAllowed, "permission_error"),
        (errors.ModelNotFound, "not_found_error"),
        (errors.MethodNotAllowed, "invalid_request_error"),
        (errors.RequestTimeout, "timeout_error"),
        (errors.Conflict, "conflict_error"),
        (errors.BodyTooLarge, "request_too_large"),
        (errors.RateLimited, "rate_limit_error"),
        (errors.UpstreamRateLimited, "rate_limit_error"),
        (errors.QuotaExceeded, "billing_error"),
        (errors.InternalError, "api_error"),
        (errors.ReplicaFailed, "api_error"),
        (errors.FilterFailed, "api_error"),
        (errors.StoreUnavailable, "api_error"),
        (errors.Overloaded, "overloaded_error"),
        (errors.ReplicaUnavailable, "overloaded_error"),
        (errors.DeadlineExceeded, "timeout_error"),
    ],
)
def test_each_error_has_its_type(error: type[errors.PenstockError], expected: str) -> None:
    body = error_body(error("It is so."), "req_1")
    shown: dict[str, object] = {"type": expected, "message": "It is so."}
    if error.code is not None:
        shown["details"] = {"error_code": error.code}
    assert orjson.loads(body) == {"type": "error", "error": shown, "request_id": "req_1"}
    assert error_event(error("It is so."), "req_1") == b"event: error\ndata: " + body + b"\n\n"


def test_rates_are_told_where_there_are_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000_000.25)
    assert rate_headers(None) == rate_headers(Rate(Room(), Room())) == []
    assert rate_headers(Rate(Room(60, 59, 1000), Room())) == [
        (b"anthropic-ratelimit-requests-limit", b"60"),
        (b"anthropic-ratelimit-requests-remaining", b"59"),
        (b"anthropic-ratelimit-requests-reset", b"2001-09-09T01:46:42Z"),
    ]
    found = dict(rate_headers(Rate(Room(), Room(1000, 0, 750))))
    assert found[b"anthropic-ratelimit-tokens-reset"] == b"2001-09-09T01:46:41Z"
