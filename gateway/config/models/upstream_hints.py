"""What is allowed and probably meant otherwise in the addresses of upstreams."""

from collections.abc import Iterator

from gateway.config.models.addresses import dns_name, is_discovered
from gateway.config.settings import Config
from routing.transports.http.origin import origin_of


def upstream_hints(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (path, hint) for each base URL without a path: of most servers the API's paths follow /v1."""
    for m, model in enumerate(config.models):
        for p, pool in enumerate(model.pools):
            if pool.engine != "openai":
                continue
            for a, address in enumerate(pool.addresses):
                if not _path(address):
                    where = f"models[{m}].pools[{p}].replicas[{a}]"
                    yield where, "the base URL has no path; the API of most servers is under /v1, as in https://HOST/v1"


def _path(address: str) -> str:
    if is_discovered(address):
        name = dns_name(address)
        return "" if name is None else name.path.strip("/")
    return origin_of(address).path
