"""The models of one worker by the names that clients use: model names, aliases, and names with adapters."""

from collections.abc import Mapping

from gateway.models.adapter_models import AdapterModels
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from protos.errors import ModelNotFound, PermissionDenied

_LONGEST_ECHO = 128


class ModelCatalog:
    """Finds served models by name; model names take precedence over aliases, aliases over `MODEL:ADAPTER`."""

    def __init__(
        self, models: Mapping[str, ServedModel], aliases: Mapping[str, ServedModel], adapters: AdapterModels
    ) -> None:
        #: By model name.
        self.models = models
        self._aliases = aliases
        self._adapters = adapters

    def find(self, name: str) -> ServedModel | None:
        """Find the model of a name; None if there is none."""
        return self.models.get(name) or self._aliases.get(name) or self._adapters.find(name)

    def require(self, caller: Caller, name: str) -> ServedModel:
        """Find the model of a name that a caller may use. Raises ModelNotFound or PermissionDenied."""
        model = self.find(name)
        if model is None:
            shown = name if len(name) <= _LONGEST_ECHO else name[:_LONGEST_ECHO] + "..."
            raise ModelNotFound(f"The model '{shown}' does not exist or you do not have access to it.", param="model")
        if not caller.all_models and not caller.allows_model(model.shown):
            raise PermissionDenied(f"This API key may not use the model '{name}'.", param="model")
        return model

    def named(self) -> list[tuple[str, ServedModel]]:
        """Every name that a client may use, with its model."""
        named = [(model.shown, model) for model in (*self.models.values(), *self._adapters.all())]
        return [*named, *self._aliases.items()]
