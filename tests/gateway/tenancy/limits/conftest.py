from collections.abc import Iterator

import pytest

from tests.gateway.tenancy.limits.bench import Bench, client_of


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
