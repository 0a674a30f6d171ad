"""TCP ports for processes that are told theirs before they listen there."""

import itertools
import os
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Below them is what needs privileges, or is well known.
_FIRST = 10_000
#: How far above a port its neighbour is, which is nobody's port.
_NEIGHBOUR = 10_000
#: Test runs, and each one's workers, begin at places of their own.
_numbers = itertools.count(os.getpid() * 997)


def free_port() -> int:
    """A port that nobody gets meanwhile who asks the system for any: it and its neighbour 10,000 higher are none of
    those that it hands out, to servers as to clients. The neighbour is for a cluster's own talk.
    """
    handed_out = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    count = max(1000, min(_NEIGHBOUR, handed_out - _FIRST - _NEIGHBOUR))
    for number in itertools.islice(_numbers, count):
        port = _FIRST + number % count
        with socket.socket() as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("every port is taken")
