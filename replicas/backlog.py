"""The backlog of one engine: tokens that its sequences are still to compute, and blocks that they wait for."""

from replicas.sequence import Sequence


class Backlog:
    """Sums over sequences; each sequence has its own part of them."""

    def __init__(self) -> None:
        self.tokens = 0  # to compute before the waiting and prefilling sequences can sample
        self.pairs = 0  # (query, key) pairs in their attention
        self.wanted = 0  # blocks that all waiting sequences need for admission, if none are shared

    def expect(self, sequence: Sequence, start: int) -> None:
        """Set the sequence's part to its tokens from `start` on."""
        before, sequence.due = sequence.due, start
        self.tokens += before - start
        self.pairs += (before * (before + 1) - start * (start + 1)) // 2

    def want(self, sequence: Sequence, blocks: int) -> None:
        """Count the blocks that a waiting sequence needs for admission."""
        sequence.wanted = blocks
        self.wanted += blocks

    def want_no_more(self, sequence: Sequence) -> None:
        """Count them no more: it is admitted, or it has ended."""
        self.wanted -= sequence.wanted
        sequence.wanted = 0
