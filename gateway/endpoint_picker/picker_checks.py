"""Checks of a configuration: which settings the endpoint picker cannot serve."""

import socket
from collections.abc import Iterator

from gateway.config.models.settings import Pool
from gateway.config.settings import Config
from protos.types import Role
from routing.transports.http.origin import origin_of


def picker_problems(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each pool whose replicas no proxy could be sent to."""
    for m, model in enumerate(config.models):
        for p, pool in enumerate(model.pools):
            where = f"models[{m}].pools[{p}]"
            if pool.engine != "openai":
                yield f"{where}.engine", f"the endpoint picker needs openai, which proxies can speak, not {pool.engine}"
            elif pool.role is not Role.BOTH:
                yield f"{where}.role", "the endpoint picker makes no pairs of prefill and decode replicas"
            else:
                yield from _address_problems(pool, where)


def _address_problems(pool: Pool, where: str) -> Iterator[tuple[str, str]]:
    for a, address in enumerate(pool.listed_addresses):
        try:
            socket.getaddrinfo(origin_of(address).host, None, flags=socket.AI_NUMERICHOST)
        except (OSError, ValueError):
            yield (
                f"{where}.replicas[{a}]",
                "the endpoint picker needs an IP address, for proxies know no other, or http+dns://NAME:PORT",
            )
