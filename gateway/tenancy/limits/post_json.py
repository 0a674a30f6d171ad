"""Posts of JSON to webhooks, each bounded in time as a whole."""

import asyncio
import os
from typing import Final
from urllib.parse import urlsplit

from routing.transports.http.buffered_exchange import ACCEPT, BufferedExchange
from routing.transports.http.connection_pool import ConnectionPool
from routing.transports.http.http1_request import HttpFailure
from routing.transports.http.origin import head, origin_of
from routing.transports.http.proxied_origin import proxied
from routing.transports.http.upstream_timeouts import Timeouts
from routing.transports.replica_tls import SslContexts

#: Seconds for a whole exchange, however slowly its answer comes.
WEBHOOK_SECONDS: Final = 10.0
#: Bytes of an answer's body that are waited for: nothing follows from them.
_MOST_BYTES: Final = 1 << 16


class WebhookFailed(Exception):
    """The webhook has not taken a body: a line for the log, without the address, which may hold a secret."""


async def post_json(url: str, body: bytes) -> None:
    """Post a JSON body, through the environment's proxy if there is one. Redirects are not followed.

    Raises:
        WebhookFailed: No answer came in time that says that it was taken.
    """
    try:
        parts = urlsplit(url)
        origin = proxied(origin_of(f"{parts.scheme}://{parts.netloc}"), None, os.environ)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = ACCEPT | {"content-type": "application/json", "content-length": str(len(body))}
        exchange = BufferedExchange(head("POST", target, origin, headers) + b"\r\n" + body, _MOST_BYTES)
    except ValueError as error:
        raise WebhookFailed(str(error)) from None
    timeouts = Timeouts(min(WEBHOOK_SECONDS, Timeouts().connect), WEBHOOK_SECONDS, WEBHOOK_SECONDS)
    pool = ConnectionPool(origin, contexts=SslContexts(None).get if origin.tls else None, timeouts=timeouts)
    problem = ""
    try:
        pool.send(exchange)
        async with asyncio.timeout(WEBHOOK_SECONDS):
            await exchange.answer
    except HttpFailure as failure:
        problem = failure.problem
    except TimeoutError:
        problem = f"no answer within {WEBHOOK_SECONDS:g} s"
    finally:
        exchange.cancel()
        await pool.aclose()
    # Once its status has come it was taken, or was not, however the body ends.
    if exchange.status:
        problem = "" if 200 <= exchange.status < 300 else f"it answers with status {exchange.status}"
    if problem:
        raise WebhookFailed(problem)
