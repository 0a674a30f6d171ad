"""Screen the texts of a relayed answer: a screen for each text, and guards after it."""

import asyncio
from typing import Final

from gateway.api.relay.relayed_strings import Path, is_json, unreadable
from gateway.filtering.filters.answer_filter import AnswerFilter, GuardedAnswer
from gateway.filtering.filters.answer_text import AnswerText, FindingSource, whole_characters
from safety.json_escapes import unescaped
from safety.screen import Screen

#: Bound on the texts of an answer.
MOST_TEXTS: Final = 4096
#: Longer texts are screened off the event loop.
_INLINE: Final = 65_536


class StreamedText(AnswerText):
    """A text that comes in pieces. `over`: all of it has come; `due`: enough has come for the guards to be asked."""

    __slots__ = ("_guarded", "choice", "due", "over", "path")

    def __init__(self, choice: int, path: Path, screen: Screen, guarded: GuardedAnswer | None) -> None:
        super().__init__(screen, json=is_json(path))
        self.choice = choice
        self.path = path
        self._guarded = guarded
        self.over = self.due = False

    @property
    def blocked(self) -> bool:
        """Whether the text has been cut off."""
        return super().blocked or (self._guarded is not None and self._guarded.blocked is not None)

    def feed(self, piece: str) -> str:
        """Screen the next piece; return what may be shown now. Raises FilterFailed."""
        shown = super().feed(piece)
        if self._guarded is None:
            return shown
        self.due = self._guarded.add(shown)
        return ""

    async def settle(self) -> str:
        """Ask the guards; return what may be shown. Raises FilterFailed."""
        assert self._guarded is not None, "only judges make it due"
        self.due = False
        return await self._guarded.settle(last=False)

    async def end(self) -> str:
        """Return the rest of what may be shown. Raises FilterFailed."""
        self.over = True
        shown = self.finish()
        if self._guarded is None:
            return shown
        self._guarded.add(shown)
        return await self._guarded.settle(last=True)


class AnswerTexts:
    """All texts of one answer, by choice."""

    def __init__(self, filter_: AnswerFilter) -> None:
        self._filter = filter_
        #: The screens and texts of each choice, for the record.
        self.sources: dict[int, list[FindingSource]] = {}
        self._count = 0

    def streamed(self, choice: int, path: Path, tail: str) -> StreamedText:
        """Begin a text in that place of a choice, after one that ended with `tail`. Raises FilterFailed."""
        self._count += 1
        if self._count > MOST_TEXTS:
            raise unreadable(f"an answer of more than {MOST_TEXTS} texts")
        guarded = self._filter.answer(choice) if self._filter.guards else None
        text = StreamedText(choice, path, self._screen(), guarded)
        self.sources.setdefault(choice, []).append(text)
        if tail:
            text.follow(tail, self._screen)
        return text

    def whole(self, choice: int, text: str) -> tuple[str, bool]:
        """Screen a whole text; return what may be shown and whether it was cut off. Raises FilterFailed."""
        screen = self._screen()
        result = screen.whole(whole_characters(text))
        if (result.findings or screen.failures) and self._count < MOST_TEXTS:
            self._count += 1
            self.sources.setdefault(choice, []).append(screen)
        return result.text, result.blocked is not None

    async def guarded(self, choice: int, path: Path, text: str) -> tuple[str, bool]:
        """Screen a whole text, then ask the guards; long texts leave the event loop. Raises FilterFailed."""
        if is_json(path):
            text = unescaped(text)
        if len(text) <= _INLINE:
            text, blocked = self.whole(choice, text)
        else:
            text, blocked = await asyncio.to_thread(self.whole, choice, text)
        if not self._filter.guards or not text:
            return text, blocked
        answer = self._filter.answer(choice)
        answer.add(text)
        text = await answer.settle(last=True)
        return text, blocked or answer.blocked is not None

    def _screen(self) -> Screen:
        screening = self._filter.screening
        return Screen(()) if screening is None else screening()
