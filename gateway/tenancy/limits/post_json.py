"""Posts of JSON to webhooks, each bounded in time as a whole."""

import asyncio
import os
from typing import Final
from urllib.parse import urlsplit

from routing.transports.http.connection_pool import ConnectionPool
from routing.transports.http.http1_request import Headers, Http1Request, HttpFailure
from routing.transports.http.origin import head, origin_of
from routing.transports.http.proxied_origin import proxied
from routing.transports.http.upstream_timeouts import Timeouts
from routing.transports.replica_tls import SslContexts

#: Seconds for a whole exchange, however slowly its answer comes.
WEBHOOK_SECONDS: Final = 10.0


class WebhookFailed(Exception):
    """The webhook has not taken a body: a line for the log, without the address, which may hold a secret."""


class _Post(Http1Request):
    """A post, whose answer's status counts alone."""

    __slots__ = ("over", "status")

    def __init__(self, request: bytes) -> None:
        super().__init__(request)
        #: 0: none has come yet.
        self.status = 0
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def answered(self, status: int, headers: Headers) -> None:
        self.status = status

    def received(self, data: bytes) -> None:
        """Leave the body: nothing follows from it."""

    def ended(self) -> None:
        self._end("")

    def failed(self, failure: HttpFailure) -> None:
        self._end(failure.problem)

    def _end(self, problem: str) -> None:
        if not self.over.done():
            self.over.set_result(problem)


async def post_json(url: str, body: bytes) -> None:
    """Post a JSON body, through the environment's proxy if there is one. Redirects are not followed.

    Raises:
        WebhookFailed: No answer came in time that says that it was taken.
    """
    try:
        parts = urlsplit(url)
        origin = proxied(origin_of(f"{parts.scheme}://{parts.netloc}"), None, os.environ)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        post = _Post(head("POST", target, origin, _headers(len(body))) + b"\r\n" + body)
    except ValueError as error:
        raise WebhookFailed(str(error)) from None
    timeouts = Timeouts(min(WEBHOOK_SECONDS, Timeouts().connect), WEBHOOK_SECONDS, WEBHOOK_SECONDS)
    pool = ConnectionPool(origin, contexts=SslContexts(None).get if origin.tls else None, timeouts=timeouts)
    try:
        pool.send(post)
        async with asyncio.timeout(WEBHOOK_SECONDS):
            problem = await post.over
    except TimeoutError:
        problem = f"no answer within {WEBHOOK_SECONDS:g} s"
    finally:
        post.cancel()
        await pool.aclose()
    # Once its status has come it was taken, or was not, however the body ends.
    if post.status:
        problem = "" if 200 <= post.status < 300 else f"it answers with status {post.status}"
    if problem:
        raise WebhookFailed(problem)


def _headers(length: int) -> dict[str, str]:
    return {
        "accept": "*/*",
        "accept-encoding": "identity",
        "user-agent": "penstock",
        "content-type": "application/json",
        "content-length": str(length),
    }
