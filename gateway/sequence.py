"""The text of one sequence as its tokens arrive: detokenized, and cut at stop strings."""

from collections.abc import Sequence as Items

from gateway.tokens.detokenizer import Detokenizer, TokenTable
from gateway.tokens.stop_strings import StopMatcher
from protos.types import Finish, FinishReason, TokenLogprobs

#: One token's logprobs: its id and the engine's entry.
TokenEntry = tuple[int, TokenLogprobs]


class SequenceText:
    """One answer of a request. `finish_reason` is set once it is over; what comes after is ignored.

    Logprob entries are released with the text of their token and never before it, so that a stop string that is
    held back does not show in them.
    """

    __slots__ = (
        "_decoded",
        "_entries",
        "_matcher",
        "_released",
        "completion_tokens",
        "detokenizer",
        "finish_reason",
        "plain",
    )

    def __init__(self, table: TokenTable, stops: tuple[str, ...]) -> None:
        self.detokenizer = Detokenizer(table)
        self._matcher = StopMatcher(stops) if stops else None
        #: Whether text passes through unchanged, which allows the caller's fast path.
        self.plain = not stops
        self.completion_tokens = 0
        self.finish_reason: FinishReason | None = None
        self._decoded = 0
        self._released = 0
        self._entries: list[tuple[int, TokenEntry]] = []

    def is_over(self) -> bool:
        """Whether the sequence has ended; what comes after is ignored."""
        return self.finish_reason is not None

    def feed(self, token_ids: Items[int], logprobs: list[TokenLogprobs] | None) -> tuple[str, list[TokenEntry]]:
        """New tokens; returns the text and the logprob entries that may be shown now."""
        if self.is_over():
            return "", []
        if logprobs is None and self._matcher is None:
            self.completion_tokens += len(token_ids)
            return self.detokenizer.feed(token_ids), []
        return self._feed_singly(token_ids, logprobs)

    def finish(self, finish: Finish) -> tuple[str, list[TokenEntry]]:
        """The engine's end of the sequence; returns what was still held back."""
        if self.is_over():
            return "", []
        text = self.detokenizer.flush()
        self._decoded += len(text)
        reason, stopped = finish.reason, False
        if self._matcher is not None:
            text, stopped = self._matcher.feed(text)
            if stopped:
                reason = FinishReason.STOP
            else:
                text += self._matcher.flush()
        self._released += len(text)
        self.finish_reason = reason
        if stopped:
            return text, self._release_entries()
        return text, [entry for _, entry in self._entries]

    def _feed_singly(self, token_ids: Items[int], logprobs: list[TokenLogprobs] | None) -> tuple[str, list[TokenEntry]]:
        # Token by token: a match ends the count of tokens at the one that completed it.
        texts: list[str] = []
        for position, token_id in enumerate(token_ids):
            self.completion_tokens += 1
            text, stopped = self.detokenizer.feed((token_id,)), False
            self._decoded += len(text)
            if self._matcher is not None:
                text, stopped = self._matcher.feed(text)
            self._released += len(text)
            texts.append(text)
            if logprobs is not None:
                # Bytes that are held will be at least one character: the entry waits for it.
                end = self._decoded + self.detokenizer.pending
                self._entries.append((end, (token_id, logprobs[position])))
            if stopped:
                self.finish_reason = FinishReason.STOP
                break
        return "".join(texts), self._release_entries()

    def _release_entries(self) -> list[TokenEntry]:
        shown = 0
        while shown < len(self._entries) and self._entries[shown][0] <= self._released:
            shown += 1
        released = [entry for _, entry in self._entries[:shown]]
        del self._entries[:shown]
        return released
