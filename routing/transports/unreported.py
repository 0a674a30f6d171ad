"""Counts what a session has submitted and no load report of the replica includes yet."""

from collections import deque


class Unreported:
    """Sums over the submits of one session that its replica has not reported yet; each is subtracted exactly once.

    Submits are kept with the sums up to and with them, so that a report subtracts all that it includes at once.
    """

    __slots__ = ("_reported", "_sent", "_submits")

    def __init__(self) -> None:
        #: (sequences, prompt tokens, KV tokens) of all submits, and of those that are reported.
        self._sent = self._reported = (0, 0, 0)
        #: (stream id, the sums with it) of the others, in the order of sending.
        self._submits: deque[tuple[int, tuple[int, int, int]]] = deque()

    @property
    def sums(self) -> tuple[int, int, int]:
        """Sequences, prompt tokens and KV tokens that are not reported."""
        sent, reported = self._sent, self._reported
        return sent[0] - reported[0], sent[1] - reported[1], sent[2] - reported[2]

    def add(self, stream_id: int, sequences: int, prompt_tokens: int, kv_tokens: int) -> None:
        """Add a submit that is being sent."""
        all_sequences, all_prompt_tokens, all_kv_tokens = self._sent
        self._sent = (all_sequences + sequences, all_prompt_tokens + prompt_tokens, all_kv_tokens + kv_tokens)
        self._submits.append((stream_id, self._sent))

    def reported(self, submits_seen: int) -> None:
        """Subtract the submits that a load includes: the first `submits_seen` sequences of the session."""
        submits = self._submits
        while submits and submits[0][1][0] <= submits_seen:
            self._reported = submits.popleft()[1]

    def unsent(self, stream_id: int) -> None:
        """Subtract a submit that was not sent after all, so that the replica will never count it."""
        before, kept = self._reported, list[tuple[int, tuple[int, int, int]]]()
        less = (0, 0, 0)
        for id_, sums in self._submits:
            if id_ == stream_id and not less[0]:
                less = (sums[0] - before[0], sums[1] - before[1], sums[2] - before[2])
            else:
                kept.append((id_, (sums[0] - less[0], sums[1] - less[1], sums[2] - less[2])))
            before = sums
        sent = self._sent
        self._submits, self._sent = deque(kept), (sent[0] - less[0], sent[1] - less[1], sent[2] - less[2])
