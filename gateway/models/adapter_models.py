"""Models with LoRA adapters, requested as `MODEL:ADAPTER`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from gateway.config.models.adapters import ADAPTER_NAME, SEPARATOR
from gateway.config.models.settings import Model
from gateway.models.served_model import ServedModel
from protos.types import Adapter

_NAME: Final = re.compile(ADAPTER_NAME)


def has_adapters(model: Model) -> bool:
    """Whether requests of a model may name an adapter."""
    return bool(model.adapters) or model.allow_unlisted


class AdapterModels:
    """The served models of a worker, each with its adapters."""

    def __init__(self, models: Mapping[str, ServedModel], configured: Iterable[Model]) -> None:
        self._listed: dict[str, ServedModel] = {}
        self._open: dict[str, ServedModel] = {}
        for model in configured:
            served = models[model.name]
            for one in model.adapters:
                variant = replace(served, adapter=Adapter(one.name, one.path))
                self._listed[variant.shown] = variant
            if model.allow_unlisted:
                self._open[model.name] = served

    def find(self, name: str) -> ServedModel | None:
        """Find the served model of a name `MODEL:ADAPTER`; None if there is none."""
        found = self._listed.get(name)
        if found is not None:
            return found
        base, _, adapter = name.rpartition(SEPARATOR)
        served = self._open.get(base)
        if served is None or not _NAME.match(adapter) or adapter not in served.fleet.known_adapters:
            return None
        return replace(served, adapter=Adapter(adapter))

    def all(self) -> list[ServedModel]:
        """Every model with each of its adapters."""
        unlisted = (
            replace(served, adapter=Adapter(adapter))
            for served in self._open.values()
            for adapter in sorted(served.fleet.known_adapters)
        )
        return [*self._listed.values(), *(model for model in unlisted if model.shown not in self._listed)]
