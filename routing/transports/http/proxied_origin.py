"""The origin of an upstream with the proxy that leads to it."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from observability.logs import RateLimit
from routing.transports.http.origin import Origin
from routing.transports.http.proxy import environment_proxy, proxy_of

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=1))

#: What is configured in place of a proxy where the environment's is not wanted.
NO_PROXY: Final = "none"


def proxied(origin: Origin, configured: str | None, environment: Mapping[str, str]) -> Origin:
    """Return the origin with its proxy: the `configured` one, else the environment's, of which a bad one is logged.

    Raises ValueError for a bad one that is configured.
    """
    if configured is not None:
        return origin if configured == NO_PROXY else replace(origin, proxy=proxy_of(configured))
    found = None
    # Exceptions may name the host or its address.
    for host in filter(None, (origin.host, origin.called)):
        try:
            found = environment_proxy(host, origin.port, environment, tls=origin.tls)
        except ValueError as error:
            log.warning("upstreams are asked without a proxy: %s", error)
            return origin
        if found is None:
            return origin
    return replace(origin, proxy=found)
