"""Budget alerts on their way to a webhook, which is a real server here."""

import asyncio
import contextlib
import http.server
import json
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.tenancy.limits import budget_alerts as alerts_module
from gateway.tenancy.limits import post_json as post_module
from gateway.tenancy.limits.budget_alerts import Alerts
from tests.loops import until

ALERT = ("key:k1", "2026-11", 75, 7_500_000_000, 10_000_000_000)
TOLD = {
    "type": "budget_alert",
    "tenant": "acme",
    "scope": "key:k1",
    "period": "2026-11",
    "percent": 75,
    "spent_usd": 7.5,
    "budget_usd": 10.0,
}


class Webhook:
    """Answers with the given statuses, then with 204; an empty one closes the connection, a text is sent as it is."""

    def __init__(self, *answers: int | bytes) -> None:
        self.bodies: list[Any] = []
        self.types: list[str | None] = []
        left = list(answers)
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                hook.types.append(self.headers["content-type"])
                answer = left.pop(0) if left else 204
                if isinstance(answer, bytes):
                    self.wfile.write(answer)
                else:
                    self.send_response(answer)
                    self.send_header("content-length", "0")
                    self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    @contextlib.contextmanager
    def serving(self) -> Iterator["Webhook"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


async def test_an_alert_arrives_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), Webhook().serving() as hook:
        alerts = Alerts(hook.url)
        alerts.announce("acme", ALERT)
        await until(lambda: not alerts._deliveries)
        await alerts.aclose()
        assert hook.bodies == [TOLD]
        assert hook.types == ["application/json"]
    assert [record.getMessage() for record in caplog.records] == [
        "budget of tenant acme (key:k1): 75 % of $10 for 2026-11 is spent"
    ]


@pytest.mark.parametrize(
    "answers", [(500, 503), (429,), (b"",), (b"nonsense\r\n\r\n",), (b"HTTP/1.1 abc\r\n\r\n", 404)]
)
async def test_what_the_webhook_does_not_take_is_sent_again(answers: tuple[int | bytes, ...]) -> None:
    with Webhook(*answers).serving() as hook:
        alerts = Alerts(hook.url, retries=(0.0, 0.0, 0.0))
        alerts.announce("acme", ALERT)
        await until(lambda: not alerts._deliveries)
        assert hook.bodies == [TOLD] * (len(answers) + 1)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://127.0.0.1:1/\x7f", "http://nowhere.invalid/"])
async def test_what_cannot_be_delivered_is_logged_and_given_up(url: str, caplog: pytest.LogCaptureFixture) -> None:
    alerts = Alerts(url, retries=(0.0,))
    alerts.announce("acme", ALERT)
    await until(lambda: not alerts._deliveries, seconds=15)
    assert caplog.records[-1].getMessage().startswith("the webhook does not take a budget alert: ")
    assert caplog.records[-1].levelno == logging.ERROR


async def test_without_a_webhook_there_is_the_log(caplog: pytest.LogCaptureFixture) -> None:
    alerts = Alerts(None)
    alerts.announce("acme", ALERT)
    await alerts.aclose()
    assert len(caplog.records) == 1


async def test_a_webhook_that_says_nothing_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other work in threads goes on beside it, such as tokenizing long prompts; and what waits is bounded."""
    monkeypatch.setattr(post_module, "WEBHOOK_SECONDS", 60.0)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        alerts = Alerts(f"http://127.0.0.1:{silent.getsockname()[1]}/", retries=())
        for _ in range(200):
            alerts.announce("acme", ALERT)
        await until(lambda: alerts._posts.locked())
        assert len(alerts._deliveries) == alerts_module.MAX_DELIVERIES
        assert await asyncio.to_thread(lambda: 7) == 7
        # Before the webhook is given up, or this test would be out of time.
        await alerts.aclose()
