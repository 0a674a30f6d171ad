from collections.abc import Iterator

import pytest

from protos import cluster_errors, errors
from protos.errors import (
    ClientError,
    PenstockError,
    QuotaExceeded,
    RateLimited,
    Source,
    UpstreamRateLimited,
)

INTERNAL = "Traceback in /opt/engine.py at 10.0.0.7:50051: CUDA error"


def classes(root: type[PenstockError] = PenstockError) -> Iterator[type[PenstockError]]:
    yield root
    for child in root.__subclasses__():
        yield from classes(child)


@pytest.mark.parametrize("kind", list(classes()))
def test_every_error_can_be_rendered(kind: type[PenstockError]) -> None:
    assert 400 <= kind.status <= 599
    assert kind.type in ("invalid_request_error", "server_error", "rate_limit_exceeded", "insufficient_quota")
    assert kind.code is None or kind.code.replace("_", "").isalnum()
    assert isinstance(kind.source, Source)
    assert kind.__doc__
    error = kind("what happened", param="p", retry_after=2.0)
    assert (error.message, error.param, error.retry_after, str(error)) == ("what happened", "p", 2.0, "what happened")


#: A provider's limit has the status that its clients know to wait at, though it is none of theirs.
WITHOUT_BLAME = {UpstreamRateLimited}


@pytest.mark.parametrize("kind", [kind for kind in classes() if kind not in WITHOUT_BLAME])
def test_blame_and_status_agree(kind: type[PenstockError]) -> None:
    client, limited = kind.status < 500, kind.status == 429
    assert issubclass(kind, ClientError) == (client and not limited)
    assert (kind.source is Source.CLIENT) == client
    assert (kind.type == "invalid_request_error") == (client and not limited)
    assert not (client and kind.retryable)


@pytest.mark.parametrize("wait", [None, 2.5])
def test_a_rate_limit_is_worth_another_try_only_when_waiting_helps(wait: float | None) -> None:
    error = RateLimited("what happened", code="tokens_per_minute", retry_after=wait)
    assert (error.code, error.retry_after, error.retryable) == ("tokens_per_minute", wait, wait is not None)
    assert not QuotaExceeded("what happened").retryable


def test_all_errors_of_the_module_are_in_the_tree() -> None:
    values = (*vars(errors).values(), *vars(cluster_errors).values())
    found = {value for value in values if isinstance(value, type) and issubclass(value, Exception)}
    assert found == set(classes())
