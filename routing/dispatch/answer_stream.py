"""The AnswerStream protocol: one request's answer, whatever replicas and submits it takes."""

from collections.abc import Callable
from typing import Protocol

from protos.types import Finish
from routing.contracts.policy import Decision, RouteRequest
from routing.contracts.transport import Relay, TokenStream


class AnswerStream(TokenStream, Protocol):
    """A `TokenStream` that also tells the decisions, retries and migrations behind it.

    `relay` gives an upstream's bytes, None for tokens; `counts` are the upstream's figures for a relayed answer that
    has ended. `begin_again`, set by a reader that has shown nothing before an answer's end, makes it forget a sequence
    that begins again. `retries`, `migrations` and `hedges` count further submits: in place of a failed one, in place of
    one that had begun to answer, and beside a slow one. `decision` is the last one followed, made for `route`.
    """

    relay: Relay | None
    counts: Finish | None
    begin_again: Callable[[int], None] | None
    retries: int
    migrations: int
    hedges: int
    decision: Decision | None
    route: RouteRequest

    @property
    def tokens(self) -> list[list[int]]:
        """All tokens so far, by sequence."""
        ...

    @property
    def replica_id(self) -> str:
        """Id of the replica that answers now or did last; empty before the first decision."""
        ...

    def check(self) -> None:
        """Raise the error that has ended the stream, if any: a relay read to its end may have been cut there."""
        ...

    def dismiss(self, index: int) -> None:
        """Stop a sequence of which no more is needed: it is not migrated."""
        ...
