import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.errors import ReplicaDraining, ReplicaFailed, ReplicaUnavailable, SequenceMoved
from protos.failures import FAILURES, from_failure
from protos.types import Failure

INTERNAL = "Traceback in /opt/engine.py at 10.0.0.7:50051: CUDA error"


@pytest.mark.parametrize("code", sorted(FAILURES))
def test_a_known_failure_becomes_its_class(code: str) -> None:
    error = from_failure(Failure(code, "for the log", "top_k"))
    assert type(error) is FAILURES[code]
    assert error.detail == f"{code}: for the log"
    assert "for the log" not in error.message
    assert error.param == "top_k"


@given(code=st.text(max_size=30), message=st.text(max_size=80))
def test_an_engines_own_words_do_not_reach_the_client(code: str, message: str) -> None:
    error = from_failure(Failure(code, INTERNAL + message))
    assert "CUDA" not in error.message
    assert error.param is None
    if code not in FAILURES:
        assert type(error) is ReplicaFailed


def test_a_parameter_that_the_engine_does_not_name() -> None:
    assert from_failure(Failure("unsupported_parameter", "", "top_k")).message.startswith("Unsupported value: 'top_k'")
    error = from_failure(Failure("unsupported_parameter", ""))
    assert error.message == "This model's engine cannot honour something that the request asks for."


def test_draining_is_no_fault_of_the_request() -> None:
    error = from_failure(Failure("draining", INTERNAL))
    assert isinstance(error, ReplicaUnavailable)
    assert INTERNAL not in error.message


def test_what_has_moved_is_no_fault_and_tells_where_to() -> None:
    error = from_failure(Failure("moved", INTERNAL, moved_to=7))
    assert isinstance(error, SequenceMoved)
    assert isinstance(error, ReplicaDraining)
    assert error.moved_to == 7
    assert INTERNAL not in error.message
