"""Reasons why an exporter fails: what an operator can mend, of real servers that fail so."""

import re
import socket
import ssl
from pathlib import Path

import pytest
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ProxyError

from observability.export_reasons import NotedSession, SaidReasons, reason_of
from tests.certificates import Authority
from tests.listener import http_answer, listening
from tests.ports import free_port


def problem(url: str, timeout: float = 10.0) -> str:
    """What a session says of one request."""
    session = NotedSession()
    session.trust_env = False
    try:
        session.request("POST", url, data=b"x", timeout=timeout, allow_redirects=False)
    except OSError:
        assert session.problem
    return session.problem


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("200 OK", ""),
        ("202 Accepted", ""),
        ("401 Unauthorized", "status 401 Unauthorized"),
        ("403 Forbidden", "status 403 Forbidden"),
        ("404 Not Found", "status 404 Not Found"),
        ("503 Service Unavailable", "status 503 Service Unavailable"),
        ("302 Found", "status 302 Found, which sends to elsewhere"),
    ],
)
def test_answers(status: str, said: str) -> None:
    with listening(http_answer(b"", status)) as server:
        assert problem(f"http://{server.address}/v1/traces") == said


def test_a_redirection_is_no_success() -> None:
    answer = b"HTTP/1.1 302 Found\r\nlocation: https://login.example\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    with listening(answer) as server:
        said = problem(f"http://{server.address}/")
    assert said == "status 302 Found, which sends to https://login.example"


def test_nobody_listens() -> None:
    assert problem(f"http://127.0.0.1:{free_port()}/") == "connection refused"


def test_a_name_that_nobody_knows() -> None:
    assert problem("http://nobody.invalid:4318/").startswith("the host's name cannot be resolved: ")


def test_no_answer_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert problem(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.05) == "no answer in time"


def test_a_server_that_hangs_up() -> None:
    with listening(b"") as server:
        assert problem(f"http://{server.address}/") == "the connection was closed without an answer"


def test_tls_where_there_is_none() -> None:
    with listening(http_answer(b"")) as server:
        assert re.fullmatch(r"no TLS: .+; is it http://\?", problem(f"https://{server.address}/"))


def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    files = Authority(tmp_path).signed("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    with listening(http_answer(b""), context=context) as server:
        assert problem(f"https://{server.address}/").startswith("its certificate is not good: ")


def test_what_nobody_knows_is_told_by_its_kind() -> None:
    assert reason_of(ValueError("no such\nthing")) == "ValueError: no such\\nthing"
    looped = NoConnection("round")
    looped.__cause__ = looped
    assert reason_of(looped) == "ConnectionError: round"
    assert reason_of(ProxyError(ConnectionRefusedError(111, "Connection refused"))) == "the proxy: connection refused"


def test_each_reason_is_said_once_until_it_works_again() -> None:
    said = SaidReasons()
    assert [said.is_new(reason) for reason in ("refused", "401", "refused")] == [True, True, False]
    said.clear()
    assert said.is_new("refused")
    assert sum(said.is_new(str(number)) for number in range(100)) < 100, "they are bounded"
