"""Wrap an ASGI application so that each of its answers ends the connection that it goes out on."""

from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.api.server.http_exchange import CLOSE


def closing(app: ASGIApp) -> ASGIApp:
    """Add `connection: close` to the answers of `app` (RFC 9112, 9.6). HTTP/2 has no such header, but GOAWAY."""

    def closed(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["http_version"] == "2":
            return app(scope, receive, send)

        def send_closing(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], CLOSE]
            return send(message)

        return app(scope, receive, send_closing)

    return closed
