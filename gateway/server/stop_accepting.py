"""Take no new connection in this process, while what has been accepted or waits to be goes on (Linux only).

A listening socket that is closed resets the connections that wait in it, and Granian closes those that it has accepted
and not read from yet: requests on their way would be lost. So the socket is made deaf some moments before: a filter
drops the packets that begin a connection, whose client repeats them after a second and is refused then.
"""

import contextlib
import ctypes
import os
import socket
import struct
import sys
from typing import Final

_ATTACH_FILTER: Final = 26  # SO_ATTACH_FILTER, which Python does not name
#: A program for the kernel's packet filter of one instruction, `ret #0`: keep no byte of any packet.
_DROP_ALL: Final = struct.pack("HBBI", 0x06, 0, 0, 0)


def stop_accepting(port: int) -> None:
    """Let the sockets that listen on `port` drop what begins a connection; where that is not allowed, do nothing."""
    if sys.platform != "linux":
        return
    instruction = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
    program = struct.pack("HP", 1, ctypes.addressof(instruction))
    for name in os.listdir("/proc/self/fd"):
        # Most descriptors are no sockets, and the folder's own is closed by now.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as found:
            if found.family in (socket.AF_INET, socket.AF_INET6) and _listens_on(found, port):
                found.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)


def _listens_on(found: socket.socket, port: int) -> bool:
    return bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) and found.getsockname()[1] == port
