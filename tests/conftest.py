"""Fixtures for all tests: one real Valkey for the session."""

import gc
import logging
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, settings

from gateway.filtering.database_files import DatabaseFiles
from gateway.store.embedded import EmbeddedStore
from observability.logs import RateLimit
from safety.patterns import keep_databases
from tests.async_tests import pytest_pyfunc_call as pytest_pyfunc_call

# How long an example takes says more about the machine's other work than about ours, and what one run has found the
# next one must find too. `--hypothesis-profile=search` looks at other examples in every run.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("penstock", settings.get_profile("search"), derandomize=True)
settings.load_profile("penstock")


#: Tells the workers of a run where the filters' databases are.
_FILTERS = "TEST_FILTERS_FOLDER"


def pytest_configure(config: pytest.Config) -> None:
    """Let a run's processes share the filters' databases, from collection on: one takes seconds to compile."""
    if _FILTERS not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="penstock-filters-", ignore_cleanup_errors=True)
        os.environ[_FILTERS] = folder.name
        config.add_cleanup(folder.cleanup)
        config.add_cleanup(partial(os.environ.__delitem__, _FILTERS))
    keep_databases(DatabaseFiles(Path(os.environ[_FILTERS])))


def pytest_collection_finish() -> None:
    """What all tests share lives as long as they do: no collection of garbage is to look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_lines_left_out_for_another_test() -> None:
    """Limits on lines of the log count from each test's beginning."""
    for logger in logging.root.manager.loggerDict.values():
        for limit in getattr(logger, "filters", ()):
            if isinstance(limit, RateLimit):
                limit._passed.clear()
                limit._dropped.clear()


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A short directory: a unix socket's path has room for about 100 bytes."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def valkey() -> Iterator[EmbeddedStore]:
    """A running Valkey that the session's tests share; `store_url` empties it for each."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as name:
        server = EmbeddedStore(Path(name))
        server.start()
        yield server
        server.stop()


@pytest.fixture
def store_url(valkey: EmbeddedStore) -> str:
    """The address of an empty store."""
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
    return valkey.url
