"""A listening socket that is made deaf: what waits in it is there still, and nothing new comes."""

import socket
import sys

import pytest

from gateway.server.stop_accepting import stop_accepting


@pytest.mark.skipif(sys.platform != "linux", reason="the packet filter is Linux's")
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_what_waits_is_served_and_nothing_new_comes(family: socket.AddressFamily) -> None:
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with (
        socket.create_server((host, 0), family=family) as listening,
        socket.create_server((host, 0), family=family) as other,
    ):
        address = listening.getsockname()
        with socket.create_connection(address[:2], timeout=5) as early:
            early.sendall(b"request")
            stop_accepting(address[1])
            with pytest.raises(TimeoutError):
                socket.create_connection(address[:2], timeout=0.1)
            socket.create_connection(other.getsockname()[:2], timeout=5).close()
            served, _ = listening.accept()
            with served:
                assert served.recv(100) == b"request"
                served.sendall(b"answer")
            assert early.recv(100) == b"answer"
