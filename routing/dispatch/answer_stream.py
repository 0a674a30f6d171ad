"""The seam to the answer of one request, whatever replicas and submits it takes."""

from typing import Protocol

from protos.types import Finish
from routing.contracts.policy import Decision, RouteRequest
from routing.contracts.transport import Relay, TokenStream


class AnswerStream(TokenStream, Protocol):
    """A `TokenStream` that knows its way through the fleet.

    `relay` is where an upstream's bytes are read, None for tokens; `counts` is what the upstream says of a relayed
    answer once it has ended. `retries`, `migrations` and `hedges` count submits beyond the first: in place of one that
    came to nothing, of one that had begun, and beside a slow one. `decision` is the last one followed, for `route`.
    """

    relay: Relay | None
    counts: Finish | None
    retries: int
    migrations: int
    hedges: int
    decision: Decision | None
    route: RouteRequest

    @property
    def tokens(self) -> list[list[int]]:
        """All tokens that came so far, by sequence."""
        ...

    @property
    def replica_id(self) -> str:
        """Where it is answered now, or was last; empty before the first decision."""
        ...

    def check(self) -> None:
        """Raises the error that has ended the stream, if one has: a relay read to its end may have been cut there."""
        ...

    def dismiss(self, index: int) -> None:
        """Nobody needs more of that sequence: it is not to go on elsewhere."""
        ...
