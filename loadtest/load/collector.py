"""A telemetry collector that accepts and discards all exports: `python -m loadtest.load.collector PORT`."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _ExportHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Accept an export; an empty answer is full success (OTLP 1.x, OTLP/HTTP response)."""
        self.rfile.read(int(self.headers.get("content-length", "0")))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the library's name)
        """Log nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _ExportHandler).serve_forever()
