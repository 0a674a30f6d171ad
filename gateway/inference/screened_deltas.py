"""Screen an answer's deltas once its parser has made them."""

from collections.abc import Sequence
from typing import Final

from gateway.filtering.filters.answer_text import AnswerText, FindingSource, whole_characters
from gateway.filtering.filters.filter_policy import NewScreen
from gateway.text.parsing.call_ids import is_own_call_id, new_call_id
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from gateway.text.sequence_text import GATHERED, TokenEntry
from observability.digests import TextDigest
from safety.screen import Screen, Screened

_OF_CALLS: Final = (CallStart, CallArguments)
#: The channel that a delta belongs to: a tool call by its number, the text, or the reasoning.
Channel = int | type[Delta]


def channel_of(delta: Delta) -> Channel:
    """Give the channel that a delta belongs to."""
    return delta.call if isinstance(delta, _OF_CALLS) else type(delta)


def delta_of(channel: Channel, text: str) -> Delta:
    """Make a delta of that channel."""
    if isinstance(channel, int):
        return CallArguments(channel, text)
    return Text(text) if channel is Text else Reasoning(text)


class ScreenedDeltas:
    """Screens the deltas of one answer; the result does not depend on how the answer is cut into pieces.

    Text, reasoning and each call's arguments are screened separately and held back as their screens require. Held text
    is released before the answer goes on in another channel; when it returns, a match that begins in text already shown
    cuts it off. After a match that blocks nothing more is shown: the answer is `blocked`.

    Logprobs wait for their text, and are withheld where some of it is replaced or cut off.
    """

    __slots__ = (
        "_at",
        "_entries",
        "_new_screen",
        "_passed",
        "_patient",
        "_tails",
        "_text",
        "blocked",
        "shown",
        "sources",
    )

    def __init__(self, new_screen: NewScreen, *, patient: bool) -> None:
        """`patient`: nobody waits for the text, so the screen may gather it first."""
        self._new_screen = new_screen
        self._patient = patient
        self._at: Channel | None = None
        self._text: AnswerText | None = None
        #: The end of each channel's text that seemed to be over.
        self._tails: dict[Channel, str] = {}
        #: Logprobs with the span of their text, and of the replaced spans before them.
        self._entries: list[tuple[int, int, Sequence[TokenEntry]]] = []
        self._passed = 0
        self.blocked = False
        #: The current channel's text, and those that found something or failed.
        self.sources: list[FindingSource] = []
        #: Digest of what is shown, if one is wanted.
        self.shown: TextDigest | None = None

    def feed(self, deltas: Sequence[Delta]) -> list[Delta]:
        """Screen the next deltas; return what may be shown now. Raises FilterFailed."""
        given: list[Delta] = []
        for delta in deltas:
            # A cheap test first: text or reasoning that goes on as before.
            if type(delta) is not self._at and (channel := channel_of(delta)) != self._at:
                given += self._end()
                self._at = channel
            if self.blocked:
                break
            if isinstance(delta, CallStart):
                given += self._begin(delta)
                continue
            text = self._text or self._begun()
            shown = text.feed(delta.text)
            if self._entries or (isinstance(delta, Text) and delta.entries):
                given += self._with_entries(text, shown, delta)
            elif shown:
                given.append(delta_of(self._at, shown))
            if text.blocked:
                self.blocked = True
        if self.shown is not None:
            hash_into(self.shown, given)
        return given

    def finish(self) -> list[Delta]:
        """Return the rest of what may be shown. Raises FilterFailed."""
        given = self._end()
        if self.shown is not None:
            hash_into(self.shown, given)
        return given

    def _begin(self, call: CallStart) -> list[Delta]:
        name = self._whole(call.name)
        self.blocked = name.blocked is not None
        if self.blocked:
            return []
        # Some models choose the ids of their calls.
        has_findings = not is_own_call_id(call.id) and self._whole(call.id).findings
        return [call._replace(name=name.text, id=new_call_id() if has_findings else call.id)]

    def _whole(self, text: str) -> Screened:
        screen = self._new_screen()
        found = screen.whole(whole_characters(text))
        if found.findings or found.failures:
            self.sources.append(screen)
        return found

    def _begun(self) -> AnswerText:
        channel = self._at
        assert channel is not None, "a text has its place"
        screen = self._new_screen()
        if self._patient:
            screen.wait_for(GATHERED)
        text = self._text = AnswerText(screen, json=isinstance(channel, int))
        self.sources.append(text)
        if tail := self._tails.get(channel):
            text.follow(tail, self._new_screen)
        return text

    def _end(self) -> list[Delta]:
        """Release the held text of a channel that is over."""
        text = self._text
        if text is None or self._at is None or self.blocked:
            return []
        rest = text.finish()
        self.blocked = text.blocked
        self._tails[self._at] = text.tail
        given: list[Delta] = [delta_of(self._at, rest)] if rest else []
        if self._entries:
            given = self._with_entries(text, rest)
            self._entries.clear()
        if not (text.findings or text.failures):
            self.sources.remove(text)
        self._text = None
        self._passed = 0
        return given

    def _with_entries(self, text: AnswerText, shown: str, came: Delta | None = None) -> list[Delta]:
        if isinstance(came, Text) and came.entries:
            end = text.screen.received
            self._entries.append((end - len(came.text), end, came.entries))
        if text.mended:
            # Nothing after the cut is shown, though the screen would show it.
            self._entries.clear()
            return [Text(shown)] if shown else []
        entries = self._released(text.screen)
        return [Text(shown, entries)] if shown or entries else []

    def _released(self, screen: Screen) -> tuple[TokenEntry, ...]:
        """Release the logprobs of decided text, less those of text that is not shown."""
        replaced, growing = screen.replaced, screen.growing
        given: list[TokenEntry] = []
        count = 0
        for start, end, entries in self._entries:
            # Tokens without text there may turn out to be within the span.
            if end > screen.decided or start == growing:
                break
            count += 1
            while self._passed < len(replaced) and replaced[self._passed][1] <= start:
                self._passed += 1
            if self._passed == len(replaced) or replaced[self._passed][0] >= end:
                given += entries
        del self._entries[:count]
        return tuple(given)


def hash_into(digest: TextDigest, deltas: Sequence[Delta]) -> None:
    """Add the text of deltas to a digest."""
    for delta in deltas:
        digest.update(delta.name if isinstance(delta, CallStart) else delta.text)
