"""The text of one sequence as its tokens arrive: detokenized, cut at stop strings, and screened."""

from collections.abc import Sequence as Items
from typing import Final, NamedTuple

from gateway.text.tokens.detokenizer import Detokenizer, TokenTable
from gateway.text.tokens.stop_strings import StopMatcher
from observability.digests import TextDigest
from protos.types import Finish, FinishReason, TokenLogprobs
from safety.screen import Screen, Screening, first_to_find

#: Of an answer that is not streamed so many characters are screened at once, and at most so many are generated in vain
#: after what blocks it.
GATHERED: Final = 2048


class TokenEntry(NamedTuple):
    """One token's id, the engine's entry for it, and where its text is in the text that is shown, in characters."""

    token_id: int
    logprobs: TokenLogprobs
    place: int


class SequenceText:
    """One answer of a request. `finish_reason` is set once it is over; what comes after is ignored.

    Logprob entries are released with the text of their token and never before it, so that a stop string that is
    held back does not show in them; those of text that a filter has replaced or cut off are withheld.
    """

    __slots__ = (
        "_decoded",
        "_entries",
        "_matcher",
        "_passed",
        "_released",
        "_screening",
        "_shift",
        "_texts",
        "_unlooked",
        "completion_tokens",
        "detokenizer",
        "finish_reason",
        "plain",
        "screen",
        "shown",
        "streams",
    )

    def __init__(
        self, table: TokenTable, stops: tuple[str, ...], screening: Screening | None = None, *, patient: bool = False
    ) -> None:
        """`patient`: nobody waits for the text, so what is screened may be gathered first."""
        self.detokenizer = Detokenizer(table)
        self._texts = table.texts
        self._matcher = StopMatcher(stops) if stops else None
        self._screening = screening
        #: What came so far of an answer that may be told as a whole to have nothing in it.
        self._unlooked = ""
        #: What looks at it, once it has to be looked at bit by bit.
        self.screen: Screen | None = None
        if screening is not None and not patient:
            self.screen = screening()
        #: Whether tokens need not be looked at one by one, ...
        self.streams = not stops
        #: ... and whether text passes through unchanged, too: both allow the caller's fast paths.
        self.plain = not stops and screening is None
        #: Gathers what is shown, if that is wanted.
        self.shown: TextDigest | None = None
        self.completion_tokens = 0
        self.finish_reason: FinishReason | None = None
        self._decoded = 0
        self._released = 0
        #: Replaced stretches before the next entry, and how much longer what stands in their place is.
        self._passed = self._shift = 0
        #: With the place of their text, in characters as they were decoded.
        self._entries: list[tuple[int, int, int, TokenLogprobs]] = []

    def is_over(self) -> bool:
        """Whether the sequence has ended; what comes after is ignored."""
        return self.finish_reason is not None

    @property
    def stopped_by(self) -> str | None:
        """The stop string that ended it."""
        return None if self._matcher is None else self._matcher.found

    def feed(self, token_ids: Items[int], logprobs: list[TokenLogprobs] | None) -> tuple[str, list[TokenEntry]]:
        """New tokens; returns the text and the logprob entries that may be shown now."""
        if self.is_over():
            return "", []
        if logprobs is None and self._matcher is None:
            self.completion_tokens += len(token_ids)
            return self.show(self.detokenizer.feed(token_ids)), []
        return self._feed_singly(token_ids, logprobs)

    def pass_by(self, text: str, tokens: int) -> None:
        """The text of so many tokens, where it is `plain` and nothing is pending: what may be shown is known."""
        self.completion_tokens += tokens
        self._noted(text)

    def show(self, text: str) -> str:
        """What may be shown now of that and what was held before. Raises FilterFailed."""
        screen = self.screen
        if screen is None:
            if self._screening is None:
                return self._noted(text)
            self._unlooked = text = self._unlooked + text
            if len(text) < GATHERED:
                return ""
            screen = self._begin_screen(self._screening)
        text = screen.feed(text)
        if screen.blocked is not None:
            self.finish_reason = FinishReason.CONTENT_FILTER
        return self._noted(text)

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
        text = self._show_last(text)
        # The last bytes of all may never have become characters: without a stop string every entry has its turn.
        return text, self._release_entries(self._released if stopped else None)

    def _show_last(self, text: str) -> str:
        """All that may be shown still: the text has ended."""
        screen = self.screen
        if screen is None:
            if self._screening is None:
                return self._noted(text)
            text = self._unlooked + text
            screening = self._screening
            first = first_to_find(text, screening.rules, screening.prefilter_pass)
            if first is None:
                return self._noted(text)
            screen = self._begin_screen(screening)
            text = screen.whole(text, first).text
        else:
            text = screen.last(text)
        if screen.blocked is not None:
            self.finish_reason = FinishReason.CONTENT_FILTER
        return self._noted(text)

    def _begin_screen(self, screening: Screening) -> Screen:
        self.screen = screen = screening()
        screen.wait_for(GATHERED)
        self._unlooked = ""
        return screen

    def _noted(self, text: str) -> str:
        if self.shown is not None and text:
            self.shown.update(text)
        return text

    def _feed_singly(self, token_ids: Items[int], logprobs: list[TokenLogprobs] | None) -> tuple[str, list[TokenEntry]]:
        # Token by token: a match ends the count of tokens at the one that completed it.
        texts: list[str] = []
        for position, token_id in enumerate(token_ids):
            self.completion_tokens += 1
            start, pending = self._decoded, self.detokenizer.pending
            text, stopped = self.detokenizer.feed((token_id,)), False
            self._decoded += len(text)
            if pending and logprobs is not None and (own := self._texts[token_id]):
                # Bytes before it that never became a character stand there as one.
                start = max(start, self._decoded - len(own))
            if self._matcher is not None:
                text, stopped = self._matcher.feed(text)
            self._released += len(text)
            texts.append(text)
            if logprobs is not None:
                # Bytes that are held will be at least one character: the entry waits for it.
                end = self._decoded + self.detokenizer.pending
                self._entries.append((start, end, token_id, logprobs[position]))
            if stopped:
                self.finish_reason = FinishReason.STOP
                break
        text = "".join(texts)
        text = self.show(text) if self.finish_reason is None else self._show_last(text)
        return text, self._release_entries(self._released)

    def _release_entries(self, released: int | None) -> list[TokenEntry]:
        """Those of text up to there, None for all that came, less what is not shown of it."""
        screen = self.screen
        if screen is None and self._screening is not None and not self.is_over():
            return []
        if screen is not None and (released is None or screen.decided < released):
            released = None if released is None and screen.blocked is None else screen.decided
        count = len(self._entries)
        if released is not None:
            # A token without text that stands there may turn out to be within the stretch.
            growing = None if screen is None else screen.growing
            count = next(
                (i for i, (start, end, _, _) in enumerate(self._entries) if end > released or start == growing), count
            )
        entries = self._entries[:count]
        del self._entries[:count]
        return [
            TokenEntry(token_id, entry, place)
            for start, end, token_id, entry in entries
            if (place := self._place(start, max(end, start + 1))) is not None
        ]

    def _place(self, start: int, end: int) -> int | None:
        """Of a token's text in all that is shown; None: some of it is not. Asked in order."""
        if self.screen is None:
            return start
        replaced, written = self.screen.replaced, self.screen.written
        while self._passed < len(replaced) and replaced[self._passed][1] <= start:
            from_, to = replaced[self._passed]
            self._shift += written[self._passed] - (to - from_)
            self._passed += 1
        if self._passed < len(replaced) and replaced[self._passed][0] < end:
            return None
        return start + self._shift
