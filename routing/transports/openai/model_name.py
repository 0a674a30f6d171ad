"""Rewrites an answer's `model` member to the name that the client knows."""

import re
from typing import Final

import orjson

#: Never matches inside a JSON string, where quotes are escaped.
_MEMBER: Final = re.compile(rb'("model"\s*:\s*)"(?:[^"\\]|\\.)*"')


class ModelName:
    """Replaces the value of each `model` member with one name; all other bytes stay."""

    __slots__ = ("_known", "_name", "_right", "_right_spaced")

    def __init__(self, name: str) -> None:
        self._name = orjson.dumps(name)
        self._right = b'"model":' + self._name
        self._right_spaced = b'"model": ' + self._name
        #: The last member that was replaced, and its replacement.
        self._known = (self._right, self._right)

    def shown(self, data: bytes) -> bytes:
        """Return whole JSON texts with the name replaced."""
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
