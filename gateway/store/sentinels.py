"""The primary that Sentinels name, whichever server that is (https://redis.io/docs/latest/develop/reference/sentinel-clients/)."""

from functools import partial
from typing import Any, Final

from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff

from gateway.config.store.address import StoreAddress
from gateway.store.valkey_server import SingleServer

#: The part of a call's timeout that asking all Sentinels may take: then the server is still to be asked.
_SENTINELS_PART: Final = 0.6


class SentinelServer(SingleServer):
    """Asks the Sentinels with each new connection; all have one login, and the servers another."""

    def __init__(self, address: StoreAddress, settings: dict[str, Any], *, timeout: float) -> None:
        """`settings` are those of pools of servers' connections; `timeout` bounds a call, in seconds."""
        each = _SENTINELS_PART * timeout / len(address.nodes)
        self._sentinel = Sentinel(  # type: ignore[no-untyped-call]
            address.nodes,
            sentinel_kwargs={
                **address.options,
                "username": address.sentinel_username,
                "password": address.sentinel_password,
                "ssl": address.tls,
                "socket_timeout": each,
                "socket_connect_timeout": each,
                "retry": Retry(NoBackoff(), 0),
            },
        )
        super().__init__(partial(SentinelConnectionPool, address.service, self._sentinel, ssl=address.tls, **settings))

    async def aclose(self) -> None:
        await super().aclose()
        await self._sentinel.aclose()
