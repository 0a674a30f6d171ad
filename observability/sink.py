"""Define `Sink`, the seam for consumers of ended requests' records."""

from collections.abc import Sequence
from typing import Protocol

from observability.record import RequestRecord


class Sink(Protocol):
    """A consumer of ended requests' records. Called from the event loop with batches, a few times a second."""

    def take(self, records: Sequence[RequestRecord]) -> None:
        """Take records without waiting for disk or network; what does not fit is dropped, counted and logged once."""
        ...

    async def aclose(self) -> None:
        """Finish what was taken, within a few seconds. Idempotent."""
        ...
