"""Which pools have found replicas that are another pool's. Pure.

Two services may select the same pods, which the configuration does not show. A replica counts once: its load, its
health and what it has cached are one pool's.
"""

from collections.abc import Iterable, Mapping, Sequence

from gateway.config.models.addresses import Found
from gateway.config.settings import Config

Place = tuple[str, str]


def shared_endpoints(config: Config, found: Mapping[Place, Iterable[Found]]) -> dict[Place, dict[str, Place]]:
    """Return by model and pool the addresses that are an earlier pool's, with that pool's place."""
    owners: dict[str, list[tuple[Place, bool]]] = {}
    shared: dict[Place, dict[str, Place]] = {}
    for model in config.models:
        for pool in model.pools:
            place, is_openai = (model.name, pool.name), pool.engine == "openai"
            for one in found.get(place, ()):
                earlier = owners.setdefault(one.address, [])
                owner = _owner(place, is_openai, earlier)
                if owner is not None:
                    shared.setdefault(place, {})[one.address] = owner
                else:
                    earlier.append((place, is_openai))
    return shared


def _owner(place: Place, is_openai: bool, earlier: Sequence[tuple[Place, bool]]) -> Place | None:
    # A server with OpenAI's API may have many models; any other replica has one.
    return next((other for other, kind in earlier if other[0] == place[0] or not (kind and is_openai)), None)
