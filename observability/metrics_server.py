"""A metrics page over HTTP for processes that have no web server: GET /metrics, and nothing else."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: The longest head of a request, in bytes; seconds for one to come, and connections at a time.
_HEAD_BYTES: Final = 16 * 1024
_IDLE_SECONDS: Final = 60.0
_MOST_CONNECTIONS: Final = 64


class MetricsServer:
    """Serves the text that `page` gives; it is called on the event loop for each scrape."""

    def __init__(self, page: Callable[[], str]) -> None:
        self._page = page
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=_HEAD_BYTES)
        port_: int = self._server.sockets[0].getsockname()[1]
        return port_

    async def aclose(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "the server calls it in a task"
        self._connections.add(task)
        try:
            while len(self._connections) <= _MOST_CONNECTIONS:
                async with asyncio.timeout(_IDLE_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
                if not head.startswith((b"GET ", b"HEAD ")):
                    break
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # it has said enough, or nothing that is HTTP
        except asyncio.CancelledError:
            pass  # the process ends
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path != b"/metrics":
            return _response("404 Not Found", b"there is /metrics\n", method)
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", b"GET or HEAD\n", method)
        return _response("200 OK", self._page().encode(), method)


def _response(status: str, body: bytes, method: bytes) -> bytes:
    # A body that a request may have is not read: it would be taken for the next request.
    close = "" if method in (b"GET", b"HEAD") else "connection: close\r\n"
    head = f"HTTP/1.1 {status}\r\ncontent-type: {_TYPE}\r\ncontent-length: {len(body)}\r\n{close}\r\n"
    return head.encode() + (b"" if method == b"HEAD" else body)
