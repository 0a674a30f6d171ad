import socket
import threading
from pathlib import Path

import pytest

from loadtest.cost.counter_server import connected
from loadtest.load.processes import BenchError


def test_a_worker_without_a_counter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="does not answer"), connected(str(tmp_path / "none.sock")):
        pass


def test_a_worker_that_ends_while_it_is_counted_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "counter.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        def serve() -> None:
            client, _ = server.accept()
            with client:
                assert client.recv(100) == b"begin\n"

        thread = threading.Thread(target=serve)
        thread.start()
        with connected(path) as counter, pytest.raises(BenchError, match="the worker has ended"):
            counter.begin()
        thread.join(10)
