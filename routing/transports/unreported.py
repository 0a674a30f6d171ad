"""Counts what a session has submitted and no load report of the replica includes yet."""

from collections import deque


class Unreported:
    """Sums over the submits of one session that its replica has not reported yet; each is subtracted exactly once."""

    __slots__ = ("_reported", "_submits", "kv_tokens", "prompt_tokens", "sequences")

    def __init__(self) -> None:
        self.sequences = 0
        self.prompt_tokens = 0
        self.kv_tokens = 0
        self._reported = 0
        #: (stream id, sequences, prompt tokens, KV tokens), in the order of sending.
        self._submits: deque[tuple[int, int, int, int]] = deque()

    def add(self, stream_id: int, sequences: int, prompt_tokens: int, kv_tokens: int) -> None:
        """Add a submit that is being sent."""
        self._submits.append((stream_id, sequences, prompt_tokens, kv_tokens))
        self.sequences += sequences
        self.prompt_tokens += prompt_tokens
        self.kv_tokens += kv_tokens

    def reported(self, submits_seen: int) -> None:
        """Subtract the submits that a load includes: the first `submits_seen` sequences of the session."""
        submits = self._submits
        while submits and self._reported + submits[0][1] <= submits_seen:
            submit = submits.popleft()
            self._reported += submit[1]
            self._subtract(submit)

    def unsent(self, stream_id: int) -> None:
        """Subtract a submit that was not sent after all, so that the replica will never count it."""
        for submit in self._submits:
            if submit[0] == stream_id:
                self._submits.remove(submit)
                self._subtract(submit)
                return

    def _subtract(self, submit: tuple[int, int, int, int]) -> None:
        self.sequences -= submit[1]
        self.prompt_tokens -= submit[2]
        self.kv_tokens -= submit[3]
