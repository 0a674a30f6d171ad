"""A controller's part in a reload: the bounds, prices and targets of the models that it sizes."""

from collections.abc import Sequence

from gateway.config.secret_variables import LateSecrets
from gateway.config.settings import Config
from gateway.reload.participant import CannotPrepare
from gateway.scaling.controller import Controller
from gateway.scaling.settings import ScaledModel, scaled_models


class ReloadedController:
    """A reload's `Participant`. Models and pools stay what they are: others need a restart."""

    def __init__(self, controller: Controller, late: LateSecrets) -> None:
        """`late` are told of the secrets that a configuration names."""
        self._controller = controller
        self._late = late
        self._prepared: Sequence[ScaledModel] | None = None

    async def prepare(self, config: Config) -> None:
        """Work out what is sized, and have nothing that is started from now on inherit its secrets.

        Raises CannotPrepare for other models or pools than those that are sized now.
        """
        models = scaled_models(config)
        if _places(models) != _places([one.model for one in self._controller.models]):
            raise CannotPrepare("other models or pools are to be sized, which wants a restart")
        self._late.note(config)
        self._prepared = models

    def take(self) -> None:
        """Decide by the prepared configuration, from the next round on."""
        models, self._prepared = self._prepared, None
        assert models is not None, "it is prepared first"
        self._controller.use(models)

    async def abandon(self) -> None:
        """Forget what was prepared."""
        self._prepared = None

    async def settle(self) -> None:
        """Return at once: there are no requests here."""


def _places(models: Sequence[ScaledModel]) -> list[tuple[str, list[tuple[str, str]]]]:
    return sorted((model.name, sorted((pool.name, pool.launcher) for pool in model.pools)) for model in models)
