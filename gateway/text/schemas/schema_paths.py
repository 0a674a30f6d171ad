"""Paths in a schema: linked to their parents, and formatted only for an error."""

from typing import Final

import msgspec

from protos.errors import InvalidRequest

_MAX_PART: Final = 64
_MAX_PLACE: Final = 256


class Place(msgspec.Struct, frozen=True):
    """A path to a part of a value: a parameter's name, or a parent path and a step."""

    name: str | int
    parent: "Place | None" = None

    def inside(self, *names: str | int) -> "Place":
        """The path of a part of this part."""
        place = self
        for name in names:
            place = Place(name, place)
        return place

    def __str__(self) -> str:
        parts: list[str] = []
        place: Place | None = self
        while place is not None:
            name = place.name
            if isinstance(name, int):
                parts.append(f"[{name}]")
            else:
                short = name if len(name) <= _MAX_PART or place.parent is None else f"{name[:_MAX_PART]}..."
                parts.append(short if place.parent is None else f".{short}")
            place = place.parent
        written = "".join(reversed(parts))
        return written if len(written) <= _MAX_PLACE else f"{written[:_MAX_PLACE]}..."

    def error(self, problem: str) -> InvalidRequest:
        """An error about this part."""
        place = str(self)
        return InvalidRequest(f"Invalid schema: '{place}' {problem}.", param=place)
