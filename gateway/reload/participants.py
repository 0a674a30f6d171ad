"""Several participants of one process as one."""

from collections.abc import Sequence

from gateway.config.settings import Config
from gateway.reload.participant import Participant


class Participants:
    """A reload's `Participant` that has others do their parts, in their order."""

    def __init__(self, parts: Sequence[Participant]) -> None:
        self._parts = parts

    async def prepare(self, config: Config) -> None:
        """Prepare all; where one cannot, nothing is left of those before it. Raises CannotPrepare."""
        prepared: list[Participant] = []
        try:
            for part in self._parts:
                await part.prepare(config)
                prepared.append(part)
        except BaseException:
            for part in prepared:
                await part.abandon()
            raise

    def take(self) -> None:
        """Have all take what was prepared."""
        for part in self._parts:
            part.take()

    async def abandon(self) -> None:
        """Have all drop what was prepared."""
        for part in self._parts:
            await part.abandon()

    async def settle(self) -> None:
        """Return when nothing of an earlier configuration is under way in any."""
        for part in self._parts:
            await part.settle()
