"""A flash crowd at a gateway that is played: streams, and an admin API that says how large the fleet is."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from loadtest.load.scaling.flash_crowd import FlashCrowd, main, parser
from tests.loops import BOUND_SECONDS


class Played(BaseHTTPRequestHandler):
    """Answers as a gateway does, each seventh stream without its end; the fleet grows while somebody asks."""

    asked = 0
    breaks = False

    def do_GET(self) -> None:
        pool = {"needed": 1, "wanted": 1, "ready": 1, "min": 1}
        self._send("application/json", json.dumps({"models": [{"pools": [pool]}]}).encode())

    def do_POST(self) -> None:
        Played.asked += 1
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert (body["model"], body["stream"], self.headers["authorization"]) == ("m", True, "Bearer k")
        end = b"" if self.breaks and Played.asked % 7 == 0 else b"data: [DONE]\n\n"
        self._send("text/event-stream", b'data: {"choices":[]}\n\n' + end)

    def _send(self, media: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Site(ThreadingHTTPServer):
    """A server whose clients may leave in the middle of an answer, as those of a benchmark that ends do."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Show what goes wrong, but for clients that have left."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr("loadtest.load.scaling.flash_crowd.LINE_SECONDS", 0.05)
    monkeypatch.setattr(Played, "asked", 0)
    monkeypatch.setenv("CROWD_KEY", "k")
    server = Site(("127.0.0.1", 0), Played)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def arguments(port: int, **more: Any) -> list[str]:
    given = {
        "port": port,
        "admin": f"http://127.0.0.1:{port}",
        "key": "env:CROWD_KEY",
        "admin-key": "env:CROWD_KEY",
        "model": "m",
    }
    given |= {"calm": 50, "rate": 200, "before": 0.1, "seconds": 0.3, "after": 5, "words": 3}
    return [part for name, value in (given | more).items() for part in (f"--{name}", str(value))]


async def test_every_answer_is_kept_account_of(port: int) -> None:
    # It is over once the fleet is small again, or never.
    result = await FlashCrowd(parser().parse_args(arguments(port, after=10 * BOUND_SECONDS))).run()
    assert result.answered == Played.asked > 20
    assert (result.failures, result.most_ready) == ([], 1)
    assert 0.0 < result.ttft_p50 <= result.ttft_p95
    assert {moment.rate for moment in result.course} == {50.0, 200.0}


def test_a_stream_without_its_end_is_a_failure(
    port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Played, "breaks", True)
    assert main(arguments(port)) == 1
    assert "the stream broke after 1 events" in capsys.readouterr().out


def test_a_gateway_that_is_not_there_is_said(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(port, admin="http://127.0.0.1:1")) == 2
    assert capsys.readouterr().err.startswith("flash_crowd: ")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("sk-secret", "expected env:NAME or file:PATH"),
        ("env:NO_SUCH_KEY", "env:NO_SUCH_KEY is empty or not there"),
        ("file:/no/such/key", "cannot read /no/such/key"),
    ],
)
def test_keys_are_on_no_command_line(source: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--key", source, "--admin-key", source])
    told = capsys.readouterr().err
    assert said in told
    assert "sk-secret" not in told


def test_a_key_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k\n")
    found = parser().parse_args(["--key", f"file:{tmp_path / 'key'}", "--admin-key", f"file:{tmp_path / 'key'}"])
    assert (found.key, found.admin_key) == ("k", "k")
