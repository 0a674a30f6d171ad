"""Fixtures for the gateway's tests: a cluster beside the single store of all tests."""

import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gateway.config.safety.settings import Safety
from gateway.filtering.filters.build_filters import text_filters
from gateway.filtering.filters.text_filters import build_text_filters
from gateway.store.embedded import EmbeddedStore
from gateway.tenancy.limits import limits_batcher as limits_batcher
from tests.cluster import Cluster, cluster


@functools.cache
def _compile(safety: bytes) -> None:
    settings = msgspec.json.decode(safety, type=Safety)
    for prompts in (True, False):
        text_filters(settings, prompts=prompts)
    # With what a gateway tells by which of them have to look at a text at all.
    build_text_filters(settings)


@pytest.fixture(autouse=True)
def filters_are_compiled(request: pytest.FixtureRequest) -> None:
    """Before the test, whose bound a busy machine would need for it alone: it takes seconds."""
    safety = getattr(request.module, "SAFETY", None)
    if safety is not None:
        _compile(msgspec.json.encode(safety))


@pytest.fixture(scope="session")
def one_node() -> Iterator[Cluster]:
    """A cluster of one node that the session's tests share."""
    with cluster() as made:
        yield made


@pytest.fixture(params=["single", "cluster"])
def any_store_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty store: a single server, or a cluster."""
    if request.param == "single":
        return str(request.getfixturevalue("store_url"))
    made: Cluster = request.getfixturevalue("one_node")
    made.flush()
    return made.url


@pytest.fixture(params=["valkey", "redis", "cluster"])
def script_store_url(request: pytest.FixtureRequest) -> str:
    """Each kind of store that scripts must run in; it may hold what others left."""
    if request.param == "redis":
        url = os.environ.get("PENSTOCK_TEST_REDIS_URL")
        if not url:
            pytest.skip("PENSTOCK_TEST_REDIS_URL names no Redis")
        return url
    if request.param == "cluster":
        return str(request.getfixturevalue("one_node").url)
    return str(request.getfixturevalue("store_url"))


@pytest.fixture
def own_store() -> Iterator[EmbeddedStore]:
    """A store that the test may freeze and kill."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-", ignore_cleanup_errors=True) as name:
        server = EmbeddedStore(Path(name))
        server.start()
        yield server
        server.stop()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Couriers that look often, so that no test has to wait for long."""
    monkeypatch.setattr(limits_batcher, "PROBE_SECONDS", 0.02)
    monkeypatch.setattr(limits_batcher, "RENEW_SECONDS", 0.05)
