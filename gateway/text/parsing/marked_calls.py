"""Calls between control tokens, which models write nowhere else: whatever stands between them is the arguments."""

from typing import Final

from gateway.text.parsing.call_machine import WAIT, CallMachine
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal

#: In characters; more than that before a call's separator is no header.
_LONGEST_HEADER: Final = 256


class MarkedCalls(CallMachine):
    """Calls, each with a header, a separator, arguments and an end, in a section whose own marks may be missing."""

    __slots__ = ()

    CALL: str
    SECTION_END: str
    SEPARATOR: Markers
    #: A call's end in all its forms, and the marks that may come without it.
    ENDS: Markers
    END: str

    def _flowing(self) -> Delta | None:
        return self._arguing() if self._state == self._arguments else super()._flowing()

    def _headed(self, header: str, out: list[Delta]) -> bool:
        """All before the separator has come: sets the state after it. False: it is no call's."""
        raise NotImplementedError

    def _opened(self, marker: str) -> None:
        if marker == self.CALL:
            self._exactly(self._header)
        else:
            self._next(self._first)

    def _first(self, text: str, at: int, out: list[Delta]) -> int:
        after = literal(text, at, self.CALL)
        if after == UNKNOWN:
            return WAIT
        if after == ABSENT:
            self._reject(out)
            return at
        self._exactly(self._header)
        return after

    def _header(self, text: str, at: int, out: list[Delta]) -> int:
        before, found = self.SEPARATOR.search_near(text, at, _LONGEST_HEADER)
        if before <= _LONGEST_HEADER:
            if found is None or not self.SEPARATOR.is_whole(found):
                return WAIT
            if self._headed(text[at : found.start()], out):
                return found.end()
        self._reject(out)
        return at

    def _arguments(self, text: str, at: int, out: list[Delta]) -> int:
        found = self.ENDS.search(text, at)
        if found is None:
            self._argue(text[at:], out)
            return len(text)
        if found.start() > at:
            self._argue(text[at : found.start()], out)
            return found.start()
        if not self.ENDS.is_whole(found):
            return WAIT
        self._end_call(out)
        self._next(self._ended)
        return found.end() if found.group().endswith(self.END) else at

    def _ended(self, text: str, at: int, out: list[Delta]) -> int:
        """After a call: the section's end is passed over; another call begins as in text."""
        after = literal(text, at, self.SECTION_END)
        if after == UNKNOWN:
            return WAIT
        if after == ABSENT:
            return self._space(text, at, out)
        self._next(self._space)
        return after
