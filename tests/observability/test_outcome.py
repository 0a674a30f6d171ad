"""How requests end."""

import pytest

from observability.outcome import FAILED, Outcome, outcome_of
from protos import errors
from protos.errors import PenstockError

BY_ERROR = [
    (errors.InvalidRequest("x"), Outcome.INVALID),
    (errors.ModelNotFound("x"), Outcome.INVALID),
    (errors.ContextLengthExceeded("x"), Outcome.INVALID),
    (errors.ContentFiltered("x"), Outcome.FILTERED),
    (errors.AuthenticationFailed("x"), Outcome.DENIED),
    (errors.KeyExpired("x"), Outcome.DENIED),
    (errors.EndpointNotAllowed("x"), Outcome.DENIED),
    (errors.RateLimited("x", code="tokens_per_minute"), Outcome.LIMITED),
    (errors.QuotaExceeded("x"), Outcome.LIMITED),
    (errors.Overloaded("x"), Outcome.SHED),
    (errors.ClientGone("x"), Outcome.CLIENT_GONE),
    (errors.SlowClient("x"), Outcome.CLIENT_GONE),
    (errors.DeadlineExceeded("x"), Outcome.TIMEOUT),
    (errors.ReplicaUnavailable("x"), Outcome.REPLICA_ERROR),
    (errors.UpstreamRateLimited("x"), Outcome.REPLICA_ERROR),
    (errors.ReplicaFailed("x"), Outcome.REPLICA_ERROR),
    (errors.StoreUnavailable(), Outcome.STORE_ERROR),
    (errors.FilterFailed("x"), Outcome.INTERNAL_ERROR),
    (errors.InternalError("x"), Outcome.INTERNAL_ERROR),
]


@pytest.mark.parametrize(("error", "outcome"), BY_ERROR, ids=lambda value: type(value).__name__)
def test_an_error_has_its_outcome(error: PenstockError, outcome: Outcome) -> None:
    assert outcome_of(error) is outcome


def test_every_failure_of_the_service_is_a_status_above_499() -> None:
    failed = {outcome for error, outcome in BY_ERROR if error.status >= 500}
    assert failed == FAILED


def test_a_request_in_the_background_that_finds_no_room_is_no_failure_of_the_service() -> None:
    assert outcome_of(errors.Overloaded("x"), background=True) is Outcome.DEFERRED
    assert outcome_of(errors.ReplicaUnavailable("x"), background=True) is outcome_of(errors.ReplicaUnavailable("x"))
    assert Outcome.DEFERRED not in FAILED
