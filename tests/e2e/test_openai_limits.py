"""What the official client makes of a limit that refuses."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import openai
import pytest

from tests.e2e.observer import Observer
from tests.e2e.stack import MODEL, Stack, config_text
from tests.ports import free_port

TENANTS = """\
tenants:
  - {name: minute, limits: {rpm: 1}}
  - {name: poor, limits: {budget: {usd: 0.001, period: month}}}
  - {name: busy, limits: {concurrency: 1}}
"""


@pytest.fixture(scope="module")
def priced() -> Iterator[Stack]:
    """One worker, and a model that costs a thousandth of a dollar for each output token."""
    text = config_text(free_port(), workers=1, more=TENANTS, listen="drain_seconds: 2")
    text = text.replace("context: 32768", "context: 32768\n    price: {output: 1000}")
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name:
        stack = Stack(Path(name), text)
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


class Counting:
    """The official client with its usual retries, and what came back each time."""

    def __init__(self, stack: Stack, tenant: str, *, retries: int = openai.DEFAULT_MAX_RETRIES) -> None:
        created = stack.run("keys", "create", "--name", "test", "--tenant", tenant, "--json")
        assert created.returncode == 0, created.stderr
        self.statuses: list[int] = []
        #: Called when a limit has refused a request.
        self.refused: Callable[[], None] = lambda: None
        self.client = openai.OpenAI(
            base_url=stack.base_url,
            api_key=json.loads(created.stdout)["key"],
            http_client=openai.DefaultHttpxClient(event_hooks={"response": [self._note]}),
            max_retries=retries,
        )

    def _note(self, response: httpx.Response) -> None:
        self.statuses.append(response.status_code)
        if response.status_code == 429:
            self.refused()

    def ask(self, tokens: int = 2) -> None:
        self.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "Hello!"}], max_tokens=tokens
        )


def test_a_spent_budget_is_told_once_and_never_tried_again(priced: Stack) -> None:
    asking = Counting(priced, "poor")
    with asking.client:
        asking.ask(1)
        for _ in range(2):
            with pytest.raises(openai.RateLimitError) as caught:
                asking.ask()
            assert (caught.value.type, caught.value.code) == ("insufficient_quota", "insufficient_quota")
            assert caught.value.response.headers["x-should-retry"] == "false"
    assert asking.statuses == [200, 429, 429]


def test_a_limit_of_a_minute_is_a_rate_limit_error(priced: Stack) -> None:
    asking = Counting(priced, "minute", retries=0)
    with asking.client:
        asking.ask()
        with pytest.raises(openai.RateLimitError) as caught:
            asking.ask()
    assert (caught.value.type, caught.value.code) == ("rate_limit_exceeded", "requests_per_minute")
    headers = caught.value.response.headers
    assert headers["x-should-retry"] == "true"
    assert 0 < float(headers["retry-after-ms"]) <= 61_000


def test_a_client_that_waits_as_told_gets_its_turn(priced: Stack) -> None:
    asking = Counting(priced, "busy")
    with asking.client:
        stream = asking.client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "Hello!"}],
            max_tokens=30_000,
            extra_body={"ignore_eos": True},
            stream=True,
        )
        next(stream)
        with Observer(priced.replica_socket()) as observer:

            def make_way() -> None:
                stream.close()
                observer.wait_idle()

            # What it is in the way of is refused for as long as it runs.
            asking.refused = make_way
            began = time.monotonic()
            asking.ask()
        assert time.monotonic() - began >= 1.0
    assert asking.statuses == [200, 429, 200]
