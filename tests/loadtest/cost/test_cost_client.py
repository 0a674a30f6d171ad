import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from loadtest.cost.cost_client import CostClient
from loadtest.load.processes import BenchError
from tests.ports import free_port

_ANSWER = b'HTTP/1.1 200 OK\r\ncontent-length: 38\r\n\r\n{"usage": {"completion_tokens": 12} }\n'


@contextmanager
def server(answer: bytes, connections: int = 1) -> Iterator[tuple[int, list[bytes]]]:
    """Answer each request with the same bytes, then close."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted = [listener.accept()[0] for _ in range(connections)]
            for connection in accepted:
                with connection:
                    came.append(connection.recv(1 << 16))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], came
        thread.join(10)


def test_answers_are_read_and_bytes_counted_both_ways() -> None:
    with server(_ANSWER, 2) as (port, came), closing(CostClient(port, "sk-1", 2)) as client:
        answers = client.ask([b"{}", b"{}"])
    assert [answer.output_tokens for answer in answers] == [12, 12]
    assert client.received == 2 * len(_ANSWER)
    assert client.sent == sum(map(len, came))
    assert all(b"authorization: Bearer sk-1\r\n" in request and b"traceparent" not in request for request in came)


def test_one_request_in_so_many_says_that_it_is_traced() -> None:
    with server(_ANSWER, 2) as (port, came), closing(CostClient(port, "sk-1", 2, traced_every=2)) as client:
        client.ask([b"{}", b"{}"])
    assert [b"traceparent: 00-" in request for request in came] == [False, True]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", "status 500"),
        (_ANSWER[:-5], "closed the connection in the middle"),
        (b"", "closed the connection in the middle"),
        (b"SSH-2.0\r\n\r\n", "no whole answer"),
    ],
)
def test_anything_but_a_whole_answer_is_an_error(answer: bytes, error: str) -> None:
    with server(answer) as (port, _), closing(CostClient(port, "sk-1", 1)) as client, pytest.raises(BenchError) as got:
        client.ask([b"{}"])
    assert error in str(got.value)


def test_a_gateway_that_is_away_is_an_error() -> None:
    with pytest.raises(BenchError, match="cannot connect to the gateway"):
        CostClient(free_port(), "sk-1", 1)
