"""Log which endpoints take requests, whenever that changes."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from gateway.endpoint_picker.picked_model import PickedModel

log = logging.getLogger(__name__)

#: Seconds between two looks: endpoints that come together are told in one line.
LOOK_SECONDS: Final = 1.0
_MOST_NAMED: Final = 10


class ReadinessLog:
    """The readiness of each model as it was last logged."""

    def __init__(self, models: Sequence[PickedModel]) -> None:
        self._models = models
        self._said: dict[str, frozenset[str]] = {model.name: frozenset() for model in models}

    def begin(self) -> None:
        """Log how every model stands, those without an endpoint with what keeps each from requests."""
        self.look()
        for model in self._models:
            if not model.fleet.ready_ids:
                problems = model.fleet.problems()
                found = "; ".join(f"{model.endpoints[id_]}: {problems[id_]}" for id_ in list(problems)[:_MOST_NAMED])
                log.warning("model %s: no endpoint takes requests: %s", model.name, found or "none is known")

    def look(self) -> None:
        """Log what has changed since the last look."""
        for model in self._models:
            before, now = self._said[model.name], frozenset(model.fleet.ready_ids)
            if before != now:
                self._said[model.name] = now
                parts = [
                    f"{what}: {_named(model, ids)}"
                    for what, ids in (("ready now", now - before), ("not any more", before - now))
                    if ids
                ]
                log.info("model %s: %d of %d endpoints; %s", model.name, len(now), len(model.fleet), "; ".join(parts))

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()


def _named(model: PickedModel, ids: frozenset[str]) -> str:
    names = sorted(model.endpoints[id_] for id_ in ids)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
