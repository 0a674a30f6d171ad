"""`GET /openapi.json`: the document of all routes, made when it is first asked for."""

import asyncio
from collections.abc import Sequence
from typing import Final

from gateway.api.server.api_route import ApiRoute
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services

PATH: Final = "/openapi.json"


def documented(routes: Sequence[ApiRoute]) -> tuple[ApiRoute, ...]:
    """The routes, and one more that serves the document of them all. It wants no key: it tells nothing of anybody."""
    made: list[bytes] = []

    async def show(services: Services, exchange: HttpExchange) -> None:
        del services
        if not made:
            # Seldom asked, and never by those who are in a hurry.
            made.append(await asyncio.to_thread(_encoded, every))
        await exchange.respond(200, made[0])

    every = (*routes, ApiRoute("GET", PATH, show))
    return every


def _encoded(routes: Sequence[ApiRoute]) -> bytes:
    # Types that nothing else needs.
    import orjson

    from gateway.api.openapi.descriptions import DESCRIPTIONS
    from gateway.api.openapi.document import document

    return orjson.dumps(document(routes, DESCRIPTIONS))
