"""The transport to an endpoint whose requests somebody else sends: a proxy that has asked where they shall go.

It looks at the endpoint's health and load as `OpenAIConnection` does, and counts what was sent there; it sends nothing
itself. Its replica's prefix cache is taken to hold the prompts that went there.
"""

from collections.abc import Callable
from typing import Final

from protos.errors import ReplicaUnavailable, UpstreamRateLimited
from protos.token_counts import TokenCounts
from protos.types import Finish, FinishReason, Submit
from routing.contracts.transport import Leg, Receiver
from routing.transports.counted_transport import CountedConnection
from routing.transports.mailbox import Mailbox
from routing.transports.openai.openai_connection import OpenAIConnection
from routing.transports.replica_connection import TransportContext
from routing.transports.replica_spec import ReplicaSpec

#: Tokens of a block by which prefixes are compared. Smaller ones would cost more than they tell: what is less than a
#: block is computed in milliseconds.
BLOCK_TOKENS: Final = 128
#: Tokens that the cache of an endpoint is taken to hold which does not tell its size.
UNKNOWN_CACHE_TOKENS: Final = 500_000


class PickedConnection(OpenAIConnection):
    """Takes submits without a payload, and gives their receiver a `PickedAnswer` at once."""

    def __init__(self, spec: ReplicaSpec, context: TransportContext) -> None:
        super().__init__(spec, context)
        self._prefixes = context.prefixes
        #: The blocks that the directory was told of.
        self._blocks = 0

    def open(
        self,
        submit: Submit,
        kv_tokens: int | None = None,
        compute_tokens: int | None = None,
        receiver: Receiver | None = None,
    ) -> Leg:
        seconds = self.back_off
        if seconds is not None:
            raise UpstreamRateLimited("The endpoint takes no more requests now.", retry_after=seconds)
        if receiver is None:
            raise ReplicaUnavailable("The endpoint's answers are read by others.")
        return CountedConnection.open(self, submit, kv_tokens, compute_tokens, receiver)

    def _send(self, submit: Submit, mailbox: Mailbox) -> Callable[[], None]:
        mailbox.relay(PickedAnswer(self, mailbox, submit.sampling.n))
        return _nothing

    def _became_reachable(self) -> None:
        super()._became_reachable()
        self._blocks = 0
        self._follow_cache()

    def _became_unreachable(self, why: str) -> None:
        # What comes back may be another process, with an empty cache.
        if self._prefixes is not None:
            self._prefixes.left(self.spec.id)
        super()._became_unreachable(why)

    def _refresh_view(self) -> None:
        super()._refresh_view()
        if self._reached:
            self._follow_cache()

    def _follow_cache(self) -> None:
        """Tell the directory the cache's size, once it is known and whenever it is another one."""
        load = self._view.load
        tokens = load.kv_blocks_total * self._view.kv_block_tokens or UNKNOWN_CACHE_TOKENS
        blocks = max(1, tokens // BLOCK_TOKENS)
        if self._prefixes is not None and blocks != self._blocks:
            self._blocks = blocks
            self._prefixes.joined(self.spec.id, BLOCK_TOKENS, blocks, exact=False)


class PickedAnswer:
    """The `Relay` of an answer that a proxy passes on: whoever hears of it tells what comes."""

    streamed = True
    length: int | None = None

    def __init__(self, connection: PickedConnection, mailbox: Mailbox, sequences: int) -> None:
        self._connection = connection
        self._mailbox = mailbox
        self._sequences = sequences
        #: Tokens so far, about.
        self.seen = 0
        self.counts: TokenCounts | None = None

    async def read(self) -> bytes:
        """Return nothing: the proxy has the bytes."""
        return b""

    def begins(self) -> None:
        """Note that the answer has begun, so that its prompt has been computed."""
        if not self._mailbox.closed:
            self._connection.answers(self._mailbox, 0)

    def ends(self, reason: FinishReason) -> None:
        """Note that the answer is complete."""
        for index in range(self._sequences):
            self._mailbox.finish(index, Finish(reason))


def _nothing() -> None:
    """Cancel nothing: the proxy ends its own requests."""
