"""The text of one sequence: detokenizes its tokens, applies stop strings, and screens the text."""

from collections.abc import Sequence as Items
from typing import Final, NamedTuple

from gateway.text.tokens.detokenizer import Detokenizer, TokenTable
from gateway.text.tokens.stop_strings import StopMatcher
from observability.digests import TextDigest
from protos.types import Finish, FinishReason, TokenLogprobs
from safety.screen import Screen, first_to_find
from safety.screening import Screening

#: Characters of an unstreamed answer that are screened at once, and characters generated in vain at most after a match
#: that blocks the answer.
GATHERED: Final = 2048


class TokenEntry(NamedTuple):
    """A token's id, the engine's logprobs for it, and its range in the shown text, in characters."""

    token_id: int
    logprobs: TokenLogprobs
    place: int


class SequenceText:
    """One sequence of a request. `finish_reason` is set once it has ended; later input is ignored.

    Logprob entries are released with their token's text, never before, so that they do not reveal a stop string that is
    held back; those of text that a filter has replaced or cut off are withheld.
    """

    # Defaults of what most sequences never set: they cost a request nothing.
    _matcher: StopMatcher | None = None
    #: Text collected so far that one screening of the whole may clear.
    _unscreened = ""
    #: The screen for the text, once it must be screened piece by piece.
    screen: Screen | None = None
    #: Collects the shown text, if that is wanted.
    shown: TextDigest | None = None
    completion_tokens = 0
    finish_reason: FinishReason | None = None
    _decoded = 0
    _released = 0
    #: Replacements before the next entry, and by how much they have lengthened the text.
    _passed = 0
    _shift = 0

    def __init__(
        self, table: TokenTable, stops: tuple[str, ...], screening: Screening | None = None, *, patient: bool = False
    ) -> None:
        """`patient`: nobody waits for the text, so it may be collected before it is screened."""
        self.detokenizer = Detokenizer(table)
        self._texts = table.texts
        self._screening = screening
        #: Whether tokens need not be examined one by one, ...
        self.streams = not stops
        #: ... and whether text passes unchanged, too: both allow the callers' fast paths.
        self.plain = not stops and screening is None
        #: Entries with the range of their text, in characters before replacements.
        self._entries: list[tuple[int, int, int, TokenLogprobs]] = []
        if stops:
            self._matcher = StopMatcher(stops)
        if screening is not None and not patient:
            self.screen = screening()

    def is_over(self) -> bool:
        """Whether the sequence has ended; later input is ignored."""
        return self.finish_reason is not None

    @property
    def stopped_by(self) -> str | None:
        """The stop string that ended the sequence, or None."""
        return None if self._matcher is None else self._matcher.found

    def feed(self, token_ids: Items[int], logprobs: list[TokenLogprobs] | None) -> tuple[str, list[TokenEntry]]:
        """Add tokens; returns the text and the logprob entries that may be shown now."""
        if self.is_over():
            return "", []
        if logprobs is None and self._matcher is None:
            self.completion_tokens += len(token_ids)
            return self.show(self.detokenizer.feed(token_ids)), []
        return self._feed_singly(token_ids, logprobs)

    def feed_last(
        self, token_ids: Items[int], logprobs: list[TokenLogprobs] | None, finish: Finish
    ) -> tuple[str, list[TokenEntry]]:
        """Add the last tokens and end the sequence; returns all that is still to be shown, as `feed` and `finish`."""
        if self.streams and logprobs is None and self.finish_reason is None and not self._entries:
            self.completion_tokens += len(token_ids)
            self.finish_reason = finish.reason
            text = self.detokenizer.last(token_ids)
            if not self.plain:
                return self._show_last(text), []
            if self.shown is not None:
                self.shown.update(text)
            return text, []
        text, entries = self.feed(token_ids, logprobs)
        rest, more = self.finish(finish)
        return text + rest, entries + more

    def pass_by(self, text: str, tokens: int) -> None:
        """Count text and tokens that the caller shows itself, while `plain` and with nothing pending."""
        self.completion_tokens += tokens
        self._record(text)

    def show(self, text: str) -> str:
        """Add text; returns what may be shown now of it and of earlier text. Raises FilterFailed."""
        screen = self.screen
        if screen is None:
            if self._screening is None:
                return self._record(text)
            self._unscreened = text = self._unscreened + text
            if len(text) < GATHERED:
                return ""
            screen = self._begin_screen(self._screening)
        text = screen.feed(text)
        if screen.blocked is not None:
            self.finish_reason = FinishReason.CONTENT_FILTER
        return self._record(text)

    def finish(self, finish: Finish) -> tuple[str, list[TokenEntry]]:
        """End the sequence; returns what was still held back."""
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
        # The last bytes may never have become characters: without a stop string every entry is released.
        return text, self._release_entries(self._released if stopped else None)

    def _show_last(self, text: str) -> str:
        """Add the last text; returns all that may still be shown."""
        screen = self.screen
        if screen is None:
            if self._screening is None:
                return self._record(text)
            text = self._unscreened + text
            screening = self._screening
            first = first_to_find(text, screening.rules, screening.prefilter_pass)
            if first is None:
                return self._record(text)
            screen = self._begin_screen(screening)
            text = screen.whole(text, first).text
        else:
            text = screen.last(text)
        if screen.blocked is not None:
            self.finish_reason = FinishReason.CONTENT_FILTER
        return self._record(text)

    def _begin_screen(self, screening: Screening) -> Screen:
        self.screen = screen = screening()
        screen.wait_for(GATHERED)
        self._unscreened = ""
        return screen

    def _record(self, text: str) -> str:
        if self.shown is not None and text:
            self.shown.update(text)
        return text

    def _feed_singly(self, token_ids: Items[int], logprobs: list[TokenLogprobs] | None) -> tuple[str, list[TokenEntry]]:
        # Token by token: a match ends the token count at the token that completed it.
        texts: list[str] = []
        for position, token_id in enumerate(token_ids):
            self.completion_tokens += 1
            start, pending = self._decoded, self.detokenizer.pending
            text, stopped = self.detokenizer.feed((token_id,)), False
            self._decoded += len(text)
            if pending and logprobs is not None and (own := self._texts[token_id]):
                # Earlier bytes that never became a character appear in the text as one.
                start = max(start, self._decoded - len(own))
            if self._matcher is not None:
                text, stopped = self._matcher.feed(text)
            self._released += len(text)
            texts.append(text)
            if logprobs is not None:
                # Held bytes will become at least one character: the entry waits for it.
                end = self._decoded + self.detokenizer.pending
                self._entries.append((start, end, token_id, logprobs[position]))
            if stopped:
                self.finish_reason = FinishReason.STOP
                break
        text = "".join(texts)
        text = self.show(text) if self.finish_reason is None else self._show_last(text)
        return text, self._release_entries(self._released)

    def _release_entries(self, released: int | None) -> list[TokenEntry]:
        """Release the entries of text up to an index, or all for None, without those of hidden text."""
        screen = self.screen
        if screen is None and self._screening is not None and not self.is_over():
            return []
        if screen is not None and (released is None or screen.decided < released):
            released = None if released is None and screen.blocked is None else screen.decided
        count = len(self._entries)
        if released is not None:
            # A token without text at that place may turn out to be within the replaced stretch.
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
        """The start of a token's text in the shown text; None: part of it is hidden. Called in order."""
        if self.screen is None:
            return start
        replaced, written = self.screen.replaced, self.screen.written
        while self._passed < len(replaced) and replaced[self._passed][1] <= start:
            from_, to = replaced[self._passed]
            self._shift += len(written[self._passed]) - (to - from_)
            self._passed += 1
        if self._passed < len(replaced) and replaced[self._passed][0] < end:
            return None
        return start + self._shift
