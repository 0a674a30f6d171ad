import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from gateway.cli import live_gateway
from gateway.cli.live_gateway import LiveGateway, LiveGatewayError, api_key
from tests.listener import http_answer, listening
from tests.ports import free_port

ERROR = (
    b'{"error": {"message": "Wrong key.", "type": "invalid_request_error", "param": null, "code": "invalid_api_key"}}'
)


def problem(url: str) -> str:
    with pytest.raises(LiveGatewayError) as caught:
        LiveGateway(url, "sk-1").call("GET", "/v1/models")
    return str(caught.value)


@pytest.mark.parametrize(
    ("suffix", "path"), [("", "/v1/models"), ("/v1", "/v1/models"), ("/v1/", "/v1/models"), ("/a", "/a/v1/models")]
)
def test_an_answer(suffix: str, path: str) -> None:
    with listening(http_answer(b"{}")) as listener:
        gateway = LiveGateway(f"http://{listener.address}{suffix}", "sk-1")
        assert gateway.call("GET", "/v1/models") == b"{}"
        assert gateway.call("POST", "/v1/models", {"a": "é"}, {"x-more": "1"}) == b"{}"
        assert gateway.shown_url == f"http://{listener.address}"
    got, posted = listener.asked
    assert got.startswith(b"GET %s HTTP/1.1\r\n" % path.encode())
    assert b"authorization: Bearer sk-1\r\n" in got
    assert b"x-more: 1\r\n" in posted
    assert posted.endswith(b'\r\n\r\n{"a": "\\u00e9"}')


def test_a_refusal_has_the_apis_words_and_code() -> None:
    with listening(http_answer(ERROR, "401 Unauthorized")) as listener:
        with pytest.raises(LiveGatewayError, match=r"^Wrong key\.$") as caught:
            LiveGateway(f"http://{listener.address}", "sk-1").call("GET", "/")
        assert caught.value.code == "invalid_api_key"


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080", "ftp://a", "http://", "http:///x", "http://a:b", "http://[::1", "http://a:99999", ""]
)
def test_urls_that_are_none(url: str) -> None:
    assert problem(url).startswith(f"--url {url}: ")


def test_no_gateway_there() -> None:
    address = f"127.0.0.1:{free_port()}"
    assert problem(f"http://user:secret@{address}") == f"no gateway answers at http://{address}: Connection refused"
    assert problem("http://no-such-host.invalid").startswith("no gateway answers at http://no-such-host.invalid: ")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "does not speak HTTP: 'SSH-2.0-OpenSSH_9.6"),
        (b"", "does not speak HTTP: 'Remote end closed connection without response'"),
        (http_answer(b"<html>", "404 Not Found"), "is no Penstock gateway: status 404"),
        (http_answer(b"[]", "500 Oh"), "is no Penstock gateway: status 500"),
        (http_answer(b"", "302 Found"), "is no Penstock gateway: status 302"),
    ],
)
def test_something_else_there(answer: bytes, says: str) -> None:
    with listening(answer) as listener:
        assert problem(f"http://{listener.address}").startswith(f"what answers at http://{listener.address} {says}")


def test_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_gateway, "_TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert problem(url) == f"{url} did not answer within 0 s"


def test_tls_where_there_is_none() -> None:
    with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as listener:
        assert problem(f"https://{listener.address}") == (
            f"no TLS with https://{listener.address}: wrong version number; is it http://?"
        )


def test_a_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes the certificate, is not here")
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -days 2"
    options += " -addext subjectAltName=IP:127.0.0.1"
    command = [openssl, "req", *options.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with listening(http_answer(b"{}"), context=context) as listener:
        url = f"https://{listener.address}"
        assert problem(url) == (
            f"the certificate of {url} is not good: self-signed certificate; SSL_CERT_FILE may name a file with other "
            "authorities"
        )
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert LiveGateway(url, "sk-1").call("GET", "/") == b"{}"


def test_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", " sk-environment\n")
    assert api_key(None) == "sk-environment"
    file = tmp_path / "key"
    file.write_text("sk-file\n")
    assert api_key(file) == "sk-file"


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ("", "PENSTOCK_API_KEY or name a file that has it with --key-file"),
        ("sk-1 sk-2", "does not hold an API key"),
        ("sk-1\r\nx-evil: 1", "does not hold an API key"),
        ("sk-\N{SNOWMAN}", "does not hold an API key"),
    ],
)
def test_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str, says: str) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", held)
    with pytest.raises(LiveGatewayError, match=says):
        api_key(None)
    file = tmp_path / "key"
    file.write_text(held or " ", encoding="utf-8")
    with pytest.raises(LiveGatewayError, match="does not hold an API key") as caught:
        api_key(file)
    assert str(file) in str(caught.value)
    assert not held or held not in str(caught.value)


def test_key_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name in ("none", "bytes", "."):
        with pytest.raises(LiveGatewayError, match="cannot read the key"):
            api_key(tmp_path / name)
