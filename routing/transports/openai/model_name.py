"""An answer's `model` member: it shows the name that the client knows."""

import re
from typing import Final

import orjson

#: A quote within a JSON string is escaped, so that this is never part of one.
_MEMBER: Final = re.compile(rb'("model"\s*:\s*)"(?:[^"\\]|\\.)*"')


class ModelName:
    """Puts one name in place of whatever there is; the rest of the bytes stays."""

    __slots__ = ("_known", "_name", "_right", "_right_spaced")

    def __init__(self, name: str) -> None:
        self._name = orjson.dumps(name)
        self._right = b'"model":' + self._name
        self._right_spaced = b'"model": ' + self._name
        #: The last member that was replaced, and by what.
        self._known = (self._right, self._right)

    def shown(self, data: bytes) -> bytes:
        """The same with the name; whole JSON texts only. What was whole before and what comes after do not matter."""
        members = data.count(b'"model"')
        if members == data.count(self._right) or self._is_right(data, members):
            return data
        data = data.replace(*self._known)
        if self._is_right(data, members):
            return data
        return _MEMBER.sub(self._replaced, data)

    def _is_right(self, data: bytes, members: int) -> bool:
        return members == data.count(self._right) + data.count(self._right_spaced)

    def _replaced(self, match: re.Match[bytes]) -> bytes:
        right = match[1] + self._name
        if match[0] != right:
            self._known = (match[0], right)
        return right
