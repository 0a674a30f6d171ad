"""Screen one text of an answer as it comes in pieces."""

from collections.abc import Sequence
from typing import Final

from gateway.filtering.filters.filter_policy import NewScreen
from safety.json_escapes import Unescaping
from safety.screen import Finding, Screen

#: Characters at the end of a text that are screened again with text that continues it later.
_TAIL: Final = 128
#: A high surrogate, as JSON's escapes may leave it alone.
_HIGH: Final = ("\ud800", "\udbff")


class AnswerText:
    """A text before its screen; in JSON, needless escapes are undone first.

    A text that seemed to be over may go on: a match that begins in what has been shown cuts it off.
    """

    __slots__ = ("_before", "_escapes", "_followed", "_half", "_stands", "mended", "screen", "tail")

    def __init__(self, screen: Screen, *, json: bool) -> None:
        self.screen = screen
        #: The end of the text as it came and was not changed.
        self.tail = ""
        self._escapes = Unescaping() if json else None
        self._half = ""
        #: Of the text before it: its characters, its findings, and what is not to be shown again.
        self._followed = 0
        self._before: frozenset[tuple[str, str, int]] = frozenset()
        self._stands = ""
        #: Whether a match has changed the text before it.
        self.mended = False

    @property
    def blocked(self) -> bool:
        """Whether the text has been cut off."""
        return self.screen.blocked is not None or self.mended

    @property
    def received(self) -> int:
        """Characters received."""
        return self.screen.received - self._followed

    @property
    def findings(self) -> Sequence[Finding]:
        """Findings in this text, without those in the text before it."""
        if not self._followed:
            return self.screen.findings
        before = self._followed
        return [
            finding._replace(start=max(0, finding.start - before), end=finding.end - before)
            for finding in self.screen.findings
            if finding.end > before and _known(finding) not in self._before
        ]

    @property
    def failures(self) -> Sequence[str]:
        """The filters that failed and were left out."""
        return self.screen.failures

    def follow(self, tail: str, new_screen: NewScreen) -> None:
        """Continue a text that ended with `tail`. Called first. Raises FilterFailed."""
        stood = new_screen().whole(tail)
        while stood.blocked is not None:
            # Nothing was blocked before: the match comes from where the end was cut.
            tail = tail[stood.blocked.end :]
            stood = new_screen().whole(tail)
        self._followed = len(tail)
        self._before = frozenset(map(_known, stood.findings))
        self._stands = stood.text
        self.tail = tail
        self._unshown(self.screen.feed(tail))

    def feed(self, piece: str) -> str:
        """Screen the next piece; return what may be shown now. Raises FilterFailed."""
        if self._escapes is not None:
            piece = self._escapes.feed(piece)
        if self._half or not piece.isascii():
            piece = self._whole_characters(piece)
        self.tail = (self.tail + piece)[-_TAIL:]
        shown = self.screen.feed(piece)
        return self._unshown(shown) if self._stands or self.mended else shown

    def finish(self) -> str:
        """Return the rest of what may be shown. Raises FilterFailed."""
        rest = "\ufffd" if self._half else ""
        self._half = ""
        if self._escapes is not None:
            rest += self._escapes.rest
        shown = self.screen.last(rest)
        self.tail = (self.tail + rest)[-_TAIL:]
        if replaced := self.screen.replaced:
            # Replaced text is not continued.
            self.tail = self.tail[max(0, len(self.tail) - (self.screen.received - replaced[-1][1])) :]
        return self._unshown(shown) if self._stands or self.mended else shown

    def _unshown(self, shown: str) -> str:
        """Remove what was shown before."""
        size = min(len(self._stands), len(shown))
        self.mended = self.mended or self._stands[:size] != shown[:size]
        self._stands = self._stands[size:]
        return "" if self.mended else shown[size:]

    def _whole_characters(self, piece: str) -> str:
        """Join surrogate pairs and replace lone ones; the last one waits for its other half."""
        piece = self._half + piece
        self._half = ""
        if _HIGH[0] <= piece[-1:] <= _HIGH[1]:
            piece, self._half = piece[:-1], piece[-1]
        return whole_characters(piece)


#: Sources of findings, failures and characters.
FindingSource = Screen | AnswerText


def _known(finding: Finding) -> tuple[str, str, int]:
    return finding.rule, finding.label, finding.start


def whole_characters(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
