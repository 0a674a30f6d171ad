"""Tool calls between control tokens, which models write nowhere else, with arguments of any content."""

from typing import Final

from gateway.text.parsing.call_machine import WAIT, CallMachine
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal

#: Longest header before a call's separator, in characters.
_LONGEST_HEADER: Final = 256


class MarkedCalls(CallMachine):
    """Reads calls, each with header, separator, arguments and end, in a section whose own marks may be missing."""

    __slots__ = ()

    CALL: str
    SECTION_END: str
    SEPARATOR: Markers
    #: Marks that end a call, and those that may occur without one.
    ENDS: Markers
    END: str

    def _flowing(self) -> Delta | None:
        return self._arguing() if self._state == self._arguments else super()._flowing()

    def _headed(self, header: str, out: list[Delta]) -> bool:
        """Set the state after a call's header. False: the header is invalid."""
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
        """Read what follows a call: skip the section's end; another call starts as in text."""
        after = literal(text, at, self.SECTION_END)
        if after == UNKNOWN:
            return WAIT
        if after == ABSENT:
            return self._space(text, at, out)
        self._next(self._space)
        return after
