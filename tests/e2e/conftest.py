"""Fixtures for the end-to-end tests: real stacks, as few as possible."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e import raw
from tests.e2e.console_page import Console, chromium
from tests.e2e.observer import Observer
from tests.e2e.stack import HANGS_SECONDS, Stack, config_text
from tests.ports import free_port


@contextlib.contextmanager
def prepared(**options: Any) -> Iterator[Stack]:
    """A stack in a short folder of its own, not started yet; nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name:
        stack = Stack(Path(name), config_text(free_port(), **options))
        try:
            yield stack
        finally:
            stack.close()


@contextlib.contextmanager
def running(**options: Any) -> Iterator[Stack]:
    """The same, started."""
    with prepared(**options) as stack:
        stack.start()
        yield stack


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Two workers and one replica at 2 ms a token; no test harms it."""
    with running(listen="drain_seconds: 2, header_timeout_seconds: 2, max_body_bytes: 1048576") as started:
        yield started


@pytest.fixture
def start() -> Iterator[Callable[..., Stack]]:
    """Starts stacks that a test may harm."""
    with contextlib.ExitStack() as stacks:
        yield lambda **options: stacks.enter_context(running(**options))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def console(browser: Any, site: Stack) -> Iterator[Console]:
    """The console of the module's `site`."""
    made = Console(browser, site)
    yield made
    made.close()


@pytest.fixture
def observer(stack: Stack) -> Iterator[Observer]:
    """Of the shared stack's replica; waits until what an earlier test left has ended."""
    with Observer(stack.replica_socket()) as watching:
        watching.wait_idle()
        yield watching


@pytest.fixture
def client(stack: Stack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=stack.base_url, api_key=stack.key, max_retries=0, timeout=HANGS_SECONDS) as made:
        yield made


@pytest.fixture(autouse=True)
def close_streams() -> Iterator[None]:
    yield
    for stream in list(raw.OPEN):
        stream.close()
