import pytest

from protos.errors import (
    ClientGone,
    ContextLengthExceeded,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    Overloaded,
    ReplicaFailed,
    ReplicaUnavailable,
    SlowClient,
    UpstreamRefuses,
    UpstreamRefusesKey,
)
from routing.health.outcomes import Outcome, outcome_of


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ReplicaFailed("x"), Outcome.FAULT),
        (ContextLengthExceeded("x"), Outcome.SUCCESS),
        (InvalidRequest("x"), Outcome.SUCCESS),
        (ClientGone("x"), Outcome.NEITHER),
        (SlowClient("x"), Outcome.NEITHER),
        (Overloaded("x"), Outcome.NEITHER),
        (ReplicaUnavailable("x"), Outcome.NEITHER),
        (InternalError("x"), Outcome.NEITHER),
        (UpstreamRefuses("x"), Outcome.NEITHER),
        (UpstreamRefusesKey("x"), Outcome.NEITHER),
        (ValueError("x"), Outcome.NEITHER),
    ],
)
def test_overload_is_no_fault_and_a_clients_mistake_speaks_for_the_engine(
    error: BaseException, outcome: Outcome
) -> None:
    assert outcome_of(error, stepping=True) is outcome_of(error, stepping=False) is outcome


def test_a_deadline_is_a_fault_only_where_the_engine_stood_still() -> None:
    assert outcome_of(DeadlineExceeded("x"), stepping=True) is Outcome.NEITHER
    assert outcome_of(DeadlineExceeded("x"), stepping=False) is Outcome.FAULT
