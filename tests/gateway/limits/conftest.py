import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.limits import courier
from gateway.store.embedded import EmbeddedStore
from tests.gateway.limits.bench import Bench, client_of


@pytest.fixture
def bench(script_store_url: str) -> Iterator[Bench]:
    """The scripts in each kind of store, and a tenant that has used nothing."""
    with client_of(script_store_url) as client:
        made = Bench(client)
        yield made
        made.lose()


@pytest.fixture
def valkey_bench(store_url: str) -> Iterator[Bench]:
    """The scripts in the embedded store alone."""
    with client_of(store_url) as client:
        yield Bench(client)


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
    monkeypatch.setattr(courier, "PROBE_SECONDS", 0.02)
    monkeypatch.setattr(courier, "RENEW_SECONDS", 0.05)
