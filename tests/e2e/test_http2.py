"""HTTP/2 and TLS on the gateway's own port, as curl speaks them."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.e2e.conftest import running
from tests.e2e.observer import Observer
from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack, config_text
from tests.ports import free_port

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
LISTEN = "drain_seconds: 1, header_timeout_seconds: 2, http2: true"


@pytest.fixture(scope="module")
def secure() -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        Authority(folder).signed("server")
        tls = "tls: {certificate: server.pem, key: server.key}"
        stack = Stack(folder, config_text(free_port(), workers=1, listen=f"{LISTEN}, {tls}"))
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


def command(stack: Stack, *options: str, path: str = "/v1/chat/completions", **fields: object) -> list[str]:
    """One request by curl, which writes the version of HTTP and the status after the body."""
    scheme = "https" if (stack.folder / "server.pem").exists() else "http"
    words = [
        "curl",
        "--silent",
        "--show-error",
        "--max-time",
        f"{HANGS_SECONDS:g}",
        "--write-out",
        "\n%{http_version} %{http_code}",
    ]
    words += ["--cacert", str(stack.folder / "authority.pem")] if scheme == "https" else []
    words += ["--header", f"Authorization: Bearer {stack.key}", *options]
    if fields:
        given = {"model": MODEL, "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}], **fields}
        words += ["--data", json.dumps(given)]
    return [*words, f"{scheme}://127.0.0.1:{stack.port}{path}"]


def curl(stack: Stack, *options: str, **request: Any) -> tuple[str, str, str]:
    """The version of HTTP, the status and the body of one answer."""
    done = subprocess.run(
        command(stack, *options, **request), capture_output=True, text=True, check=False, timeout=HANGS_SECONDS
    )
    assert done.returncode == 0, done.stderr
    body, _, end = done.stdout.rpartition("\n")
    version, status = end.split()
    return version, status, body


def check(stack: Stack, version: str, *options: str) -> None:
    """Answers of every kind, in one version of HTTP."""
    assert curl(stack, *options, stream=False)[:2] == (version, "200")
    *told, body = curl(stack, *options, stream=True)
    assert told == [version, "200"]
    assert body.count("data: ") > 8
    assert body.endswith("data: [DONE]\n\n")
    assert curl(stack, *options, n=0)[:2] == (version, "400")
    assert curl(stack, *options, path="/nope")[:2] == (version, "404")
    *told, head = curl(stack, *options, "--head", path="/v1/models")
    assert told == [version, "200"]
    assert re.search(r"content-length: [1-9]", head)
    assert curl(stack, *options, "--request", "OPTIONS")[:2] == (version, "200")


def test_over_tls_the_client_chooses(secure: Stack) -> None:
    assert "https://127.0.0.1" in secure.output
    check(secure, "2")
    check(secure, "1.1", "--http1.1")


def test_without_tls_the_client_begins_with_it() -> None:
    with running(workers=1, listen=LISTEN) as stack:
        check(stack, "2", "--http2-prior-knowledge")
        check(stack, "1.1")


def test_a_client_that_resets_its_stream_ends_its_request(secure: Stack) -> None:
    with Observer(secure.replica_socket()) as observer:
        asked = command(secure, "--no-buffer", stream=True, max_tokens=30_000, ignore_eos=True)
        with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as answering:
            assert answering.stdout is not None
            assert answering.stdout.readline().startswith(b"data: ")
            assert observer.load().running == 1
            # What curl cannot write it does not go on to ask for: it ends the stream, and says so.
            answering.stdout.close()
            assert answering.wait(HANGS_SECONDS) == 23
        before = observer.load().steps
        observer.wait_idle()
        assert observer.load().steps - before < 10_000
    assert curl(secure, path="/healthz")[:2] == ("2", "200")
