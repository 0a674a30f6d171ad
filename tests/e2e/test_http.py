"""HTTP and SSE on the wire, byte by byte."""

import json
import socket

import orjson
import pytest

from tests.e2e.raw import Stream, ask, chat, connect, error_of, read_answer, request_bytes
from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack


@pytest.mark.parametrize("usage", [False, True])
@pytest.mark.parametrize(("path", "n"), [("chat/completions", 1), ("chat/completions", 3), ("completions", 1)])
def test_the_form_of_a_stream(stack: Stack, path: str, n: int, usage: bool) -> None:
    body = {"model": MODEL, "max_tokens": 10, "n": n, "stream": True}
    body |= {"prompt": "Hi"} if path == "completions" else {"messages": [{"role": "user", "content": "Hi"}]}
    if usage:
        body["stream_options"] = {"include_usage": True}
    status, headers, raw = ask(stack, body, path=f"/v1/{path}")
    assert status == 200
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "content-length" not in headers
    assert raw.endswith(b"data: [DONE]\n\n")
    events = raw.split(b"\n\n")
    assert events.pop() == b""
    assert all(event.startswith(b"data: ") and b"\n" not in event for event in events), raw
    chunks = [json.loads(event.removeprefix(b"data: ")) for event in events[:-1]]
    kind = "text_completion" if path == "completions" else "chat.completion.chunk"
    assert {chunk["object"] for chunk in chunks} == {kind}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all(("usage" in chunk) == usage for chunk in chunks)
    ends = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"] if choice["finish_reason"]]
    assert ends == ["length"] * n
    if usage:
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"]["completion_tokens"] == 10 * n


def test_a_wrong_method(stack: Stack) -> None:
    for method, path, allowed in (
        ("GET", "/v1/chat/completions", "POST"),
        ("PUT", "/v1/completions", "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", f"/v1/models/{MODEL}", "GET"),
        ("POST", "/healthz", "GET"),
    ):
        answer = ask(stack, method=method, path=path)
        assert error_of(answer, 405)["code"] == "method_not_allowed"
        assert answer[1]["allow"].replace("GET, HEAD", "GET") == f"{allowed}, OPTIONS"
    status, headers, body = ask(stack, method="OPTIONS", path="/v1/chat/completions")
    assert (status, headers["allow"], body) == (200, "POST, OPTIONS", b"")


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/", "/v1/chat/completions/", "/v2/models", "//v1/models", "/%00", "/v1/" + "x" * 5000]
)
def test_a_wrong_path(stack: Stack, path: str) -> None:
    error = error_of(ask(stack, method="GET", path=path), 404)
    assert error["code"] == "unknown_url"
    assert len(error["message"]) < 300


def test_paths_that_climb_find_nothing(stack: Stack) -> None:
    for path in ("/v1/../../etc/passwd", "/v1/models/../../etc/passwd", "/v1/models/%2e%2e%2fetc%2fpasswd"):
        error_of(ask(stack, method="GET", path=path), 404)


def test_head(stack: Stack) -> None:
    status, headers, body = ask(stack, method="HEAD", path="/v1/models")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 0
    status, headers, body = ask(stack, method="HEAD", path="/v1/completions")
    assert (status, body) == (405, b"")
    assert headers["allow"] == "POST, OPTIONS"


def test_a_body_over_the_limit_is_refused_before_it_is_read(stack: Stack) -> None:
    with connect(stack) as connection:
        connection.sendall(request_bytes(stack, b"", headers={"Content-Length": str(1 << 40)}))
        error = error_of(read_answer(connection), 413)
    assert error["code"] == "request_too_large"


@pytest.mark.parametrize("length", ["-1", "1e3", "99999999999999999999999999", "10, 20", "0x10"])
def test_a_content_length_that_is_none(stack: Stack, length: str) -> None:
    with connect(stack) as connection:
        connection.sendall(request_bytes(stack, b"{}", headers={"Content-Length": length}))
        assert connection.recv(4096).split(b" ")[1] in (b"400", b"413")


def chunked(body: bytes, size: int) -> bytes:
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def test_a_chunked_body(stack: Stack) -> None:
    body = chunked(orjson.dumps(chat("Hi", max_tokens=3)), 7)
    head = request_bytes(stack, headers={"Content-Length": "", "Transfer-Encoding": "chunked"})
    with connect(stack) as connection:
        connection.sendall(head + body)
        assert read_answer(connection)[0] == 200


def test_a_chunked_body_over_the_limit(stack: Stack) -> None:
    head = request_bytes(stack, headers={"Content-Length": "", "Transfer-Encoding": "chunked"})
    with connect(stack) as connection:
        connection.sendall(head)
        try:
            for _ in range(40):
                connection.sendall(chunked(b" " * 65536, 65536)[:-5])
        except OSError:
            pass  # it may close once it has answered
        error = error_of(read_answer(connection), 413)
    assert error["code"] == "request_too_large"


def test_broken_chunks(stack: Stack) -> None:
    head = request_bytes(stack, headers={"Content-Length": "", "Transfer-Encoding": "chunked"})
    with connect(stack) as connection:
        connection.sendall(head + b"zz\r\nhello\r\n")
        first = connection.recv(4096)
        assert first == b"" or first.split(b" ")[1] == b"400"


def test_length_and_chunks_together_do_not_smuggle(stack: Stack) -> None:
    hidden = request_bytes(stack, method="GET", path="/v1/models")
    with connect(stack) as connection:
        connection.sendall(
            request_bytes(stack, b"0\r\n\r\n" + hidden, headers={"Content-Length": "5", "Transfer-Encoding": "chunked"})
        )
        connection.settimeout(5)
        seen = b""
        try:
            while data := connection.recv(65536):
                seen += data
        except TimeoutError:
            pass
    assert seen.count(b"HTTP/1.1 ") <= 2
    assert b"HTTP/1.1 5" not in seen


def test_pipelined_requests_are_answered_in_order(stack: Stack) -> None:
    first = request_bytes(stack, orjson.dumps(chat("Hi", max_tokens=20)))
    second = request_bytes(stack, method="GET", path="/healthz")
    third = request_bytes(stack, b"{", path="/v1/completions")
    with connect(stack) as connection:
        connection.sendall(first + second + third)
        reader = connection.makefile("rb")
        try:
            statuses, bodies = [], []
            for _ in range(3):
                statuses.append(int(reader.readline().split(b" ")[1]))
                length = 0
                while (line := reader.readline()) != b"\r\n":
                    name, _, value = line.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                bodies.append(reader.read(length))
        finally:
            reader.close()
    assert statuses == [200, 200, 400]
    assert b"chat.completion" in bodies[0]
    assert bodies[1] == b'{"status":"ok"}'


def test_a_connection_serves_many_requests(stack: Stack) -> None:
    with connect(stack) as connection:
        for n in range(30):
            stream = n % 2 == 0
            connection.sendall(request_bytes(stack, orjson.dumps(chat("Hi", max_tokens=2, stream=stream))))
            status, _, body = read_answer(connection)
            assert status == 200
            assert body.endswith(b"[DONE]\n\n") == stream


def test_a_connection_survives_errors(stack: Stack) -> None:
    with connect(stack) as connection:
        for body in (b"{", b"[]", orjson.dumps(chat(temperature=9))):
            connection.sendall(request_bytes(stack, body))
            error_of(read_answer(connection), 400)
        connection.sendall(request_bytes(stack, orjson.dumps(chat(max_tokens=1))))
        assert read_answer(connection)[0] == 200


@pytest.mark.parametrize("sent", [b"", b"POST /v1/chat", b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_slow_headers_end_the_connection(stack: Stack, sent: bytes) -> None:
    """Within the configured 2 s, though a byte comes now and then."""
    with connect(stack) as connection:
        connection.settimeout(0.25)
        connection.sendall(sent)
        seen: bytes | None = None
        pauses = 0
        while seen is None:
            try:
                try:
                    seen = connection.recv(4096)
                except TimeoutError:
                    pauses += 1
                    assert pauses < HANGS_SECONDS / 0.25, "it is still there"
                    if sent:
                        connection.sendall(b"x")
            except ConnectionError:
                seen = b""
    assert seen == b"" or seen.startswith(b"HTTP/1.1 408")


def test_a_keep_alive_connection_may_pause(stack: Stack) -> None:
    """Reading an answer for longer than the header timeout must not end it."""
    stream = Stream(stack, chat(stream=True, max_tokens=1500, ignore_eos=True))  # 3 s at 2 ms
    try:
        assert stream.begin() == 200
        assert stream.rest()[-1] == b"[DONE]"
    finally:
        stream.close()


@pytest.mark.parametrize(
    "head",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/models HTTP/9.9\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nNo colon here\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nBad\x00Name: x\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(5000)) + b"\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Long: " + b"y" * 1_000_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=["zeros", "no-path", "version", "no-colon", "nul", "many", "long", "long-path", "tls", "http2"],
)
def test_garbage_for_a_head(stack: Stack, head: bytes) -> None:
    with connect(stack) as connection:
        seen = b""
        try:
            connection.sendall(head)
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(65536):
                seen += data
        except OSError:
            pass
    assert seen == b"" or seen.split(b" ")[1][:1] == b"4", seen[:300]
    assert ask(stack, method="GET", path="/healthz")[0] == 200


@pytest.mark.parametrize(
    "header",
    ["Basic dXNlcjpwYXNz", "Bearer", "Bearer ", "Bearer a b", "bearer\tx", "Bearer \xff\xfe", "Bearer " + "x" * 20_000],
)
def test_garbage_for_a_key(stack: Stack, header: str) -> None:
    answer = ask(stack, chat(), headers={"Authorization": header})
    error = error_of(answer, 401)
    assert error["code"] == "invalid_api_key"
    assert answer[1]["www-authenticate"] == "Bearer"


def test_strange_headers_do_no_harm(stack: Stack) -> None:
    strange = {"Content-Type": "text/plain\xff", "Accept": "\xe9", "X-Request-Id": "a" * 5000, "Expect": "nonsense"}
    status, headers, _ = ask(stack, chat(max_tokens=1), headers=strange)
    assert status in (200, 417)
    assert headers["x-request-id"] != "a" * 5000


def test_health_and_readiness(stack: Stack) -> None:
    for path, body in (
        ("/healthz", {"status": "ok"}),
        ("/readyz", {"status": "ready", "models": {MODEL: {"replicas": 1, "ready": 1}}}),
    ):
        status, _, raw = ask(stack, method="GET", path=path, headers={"Authorization": ""})
        assert (status, json.loads(raw)) == (200, body)
