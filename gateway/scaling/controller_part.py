"""The seam of what the controller's process does beside sizing pools."""

from collections.abc import Callable
from typing import Protocol

from gateway.config.settings import Config
from gateway.reload.participant import Participant
from gateway.store.store_client import Store


class ControllerPart(Participant, Protocol):
    """A part with a lease of its own; a reload's `Participant`."""

    async def run(self) -> None:
        """Act whenever it may, until cancelled."""
        ...

    async def leave(self) -> None:
        """Give its lease up, so that another process need not wait. Raises StoreUnavailable."""
        ...


#: Makes a part of the configuration, the process's connection to the store, and its name, which no other one has.
MakePart = Callable[[Config, Store, str], ControllerPart]
