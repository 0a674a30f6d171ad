"""The seam of what becomes of ended requests."""

from collections.abc import Sequence
from typing import Protocol

from observability.record import RequestRecord


class Sink(Protocol):
    """Takes in what has ended. Called from the event loop with batches, a few times a second."""

    def take(self, records: Sequence[RequestRecord]) -> None:
        """Never waits, and never for disk or network; what does not fit is dropped, counted and said once."""
        ...

    async def aclose(self) -> None:
        """Finish what was taken in, within a few seconds. Idempotent."""
        ...
