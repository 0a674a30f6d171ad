"""A stand-in for a gateway in a thread: it answers chats by a function, and counts who asked what."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: A body and the headers of a request, to a status and an answer's text or, of an error, its code.
Answering = Callable[[dict[str, Any], dict[str, str]], tuple[int, str]]


class StandIn:
    """`bodies` are the chats' that came, with their headers."""

    def __init__(self, answer: Answering) -> None:
        self.answer = answer
        self.bodies: list[tuple[dict[str, Any], dict[str, str]]] = []
        self.embedded: list[str] = []
        self._lock = threading.Lock()

    def reply(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        if path == "/v1/embeddings":
            self.embedded += body["input"]
            data = [{"index": i, "embedding": [1.0, float(i % 2)]} for i in range(len(body["input"]))]
            return 200, {}, {"data": data[::-1]}
        with self._lock:
            self.bodies.append((body, headers))
        status, text = self.answer(body, headers)
        version = {"x-penstock-version": headers.get("x-penstock-version", "v1")}
        if status != 200:
            return status, version, {"error": {"message": "No.", "code": text}}
        choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop"}
        return 200, version, {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}


@contextlib.contextmanager
def standing_in(answer: Answering) -> Iterator[tuple[StandIn, str]]:
    """Yield the stand-in and its URL."""
    stand_in = StandIn(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, value = stand_in.reply(self.path, body, headers)
            data = json.dumps(value).encode()
            self.send_response(status)
            for name, text in {"content-length": str(len(data)), **more}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stand_in, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
