"""`GET /openapi.json`: serve the document of all routes, made on the first request."""

import asyncio
from collections.abc import Sequence
from typing import Final

from gateway.api.server.api_route import ApiRoute
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services

PATH: Final = "/openapi.json"


def documented(routes: Sequence[ApiRoute]) -> tuple[ApiRoute, ...]:
    """Add the route that serves the document of all routes. It needs no key, since it reveals nothing of anybody."""
    made: list[bytes] = []

    async def show(services: Services, exchange: HttpExchange) -> None:
        del services
        if not made:
            # Off the event loop: seldom requested, and never urgent.
            made.append(await asyncio.to_thread(_encoded, every))
        await exchange.respond(200, made[0])

    every = (*routes, ApiRoute("GET", PATH, show))
    return every


def _encoded(routes: Sequence[ApiRoute]) -> bytes:
    # Imported here: the types take time to import and nothing else needs them.
    import orjson

    from gateway.api.openapi.descriptions import DESCRIPTIONS
    from gateway.api.openapi.document import document

    return orjson.dumps(document(routes, DESCRIPTIONS))
