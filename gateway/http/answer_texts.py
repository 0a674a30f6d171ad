"""The texts of a relayed answer before the filters: a screen for each, and the judges after it."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.filters.answers import AnswerFilter, JudgedAnswer
from gateway.http.relayed_strings import Path, unreadable
from safety.screen import Finding, Screen

#: An answer of more texts than this is none.
MOST_TEXTS: Final = 4096
#: Half a character, as UTF-16 has it and as JSON's escapes write it.
_HIGH: Final = ("\ud800", "\udbff")


class FoundIn(NamedTuple):
    """What was found in the texts of one choice, of so many characters in all."""

    choice: int
    characters: int
    findings: list[Finding]
    failures: list[str]


class StreamedText:
    """A text that comes in pieces. `over`: all of it has come; `due`: there is enough for the judges to be asked."""

    __slots__ = ("_half", "_judged", "choice", "due", "over", "path", "screen")

    def __init__(self, choice: int, path: Path, screen: Screen, judged: JudgedAnswer | None) -> None:
        self.choice = choice
        self.path = path
        self.screen = screen
        self._judged = judged
        self._half = ""
        self.over = self.due = False

    @property
    def blocked(self) -> bool:
        """Whether it has been cut off."""
        return self.screen.blocked is not None or (self._judged is not None and self._judged.blocked is not None)

    def feed(self, piece: str) -> str:
        """The next piece; gives what may be shown now. Raises FilterFailed."""
        if self._half or not piece.isascii():
            piece = self._whole_characters(piece)
        shown = self.screen.feed(piece)
        if self._judged is None:
            return shown
        self.due = self._judged.add(shown)
        return ""

    async def settle(self) -> str:
        """What may be shown after the judges' verdict. Raises FilterFailed."""
        assert self._judged is not None, "only judges make it due"
        self.due = False
        return await self._judged.settle(last=False)

    async def finish(self) -> str:
        """The rest of what may be shown. Raises FilterFailed."""
        self.over = True
        shown = self.screen.feed("\ufffd") if self._half else ""
        self._half = ""
        shown += self.screen.finish()
        if self._judged is None:
            return shown
        self._judged.add(shown)
        return await self._judged.settle(last=True)

    def _whole_characters(self, piece: str) -> str:
        """Halves of characters joined, those that stay alone replaced; the last one waits for its other half."""
        piece = self._half + piece
        self._half = ""
        if _HIGH[0] <= piece[-1:] <= _HIGH[1]:
            piece, self._half = piece[:-1], piece[-1]
        return whole_characters(piece)


class AnswerTexts:
    """All texts of one answer, by its choices."""

    def __init__(self, filter_: AnswerFilter) -> None:
        self._filter = filter_
        self._screens: dict[int, list[Screen]] = {}
        self._count = 0

    def streamed(self, choice: int, path: Path) -> StreamedText:
        """A new one, in that place of a choice. Raises FilterFailed."""
        self._count += 1
        if self._count > MOST_TEXTS:
            raise unreadable(f"an answer of more than {MOST_TEXTS} texts")
        screen = self._screen()
        self._screens.setdefault(choice, []).append(screen)
        return StreamedText(choice, path, screen, self._filter.answer() if self._filter.judges else None)

    def whole(self, choice: int, text: str) -> tuple[str, bool]:
        """A text that came whole: what may be shown of it, and whether it has been cut off. Raises FilterFailed."""
        screen = self._screen()
        result = screen.whole(whole_characters(text))
        if (result.findings or screen.failures) and self._count < MOST_TEXTS:
            self._count += 1
            self._screens.setdefault(choice, []).append(screen)
        return result.text, result.blocked is not None

    async def judged(self, choice: int, text: str) -> tuple[str, bool]:
        """The same, with the judges asked after the screens. Raises FilterFailed."""
        text, blocked = self.whole(choice, text)
        if not self._filter.judges or not text:
            return text, blocked
        answer = self._filter.answer()
        answer.add(text)
        text = await answer.settle(last=True)
        return text, blocked or answer.blocked is not None

    def found(self) -> Iterator[FoundIn]:
        """What the screens have found so far, and which filters failed and were left out."""
        for choice, screens in sorted(self._screens.items()):
            findings = [finding for screen in screens for finding in screen.findings]
            failures = sorted({name for screen in screens for name in screen.failures})
            if findings or failures:
                yield FoundIn(choice, sum(screen.received for screen in screens), findings, failures)

    def _screen(self) -> Screen:
        new_screen = self._filter.new_screen
        return Screen(()) if new_screen is None else new_screen()


def whole_characters(text: str) -> str:
    """The text with halves of characters joined, and those that stay alone replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
