"""The subjects of drift, each with a reference of its own: a model's requests, and each version's answers."""

from typing import Final

import msgspec

from observability.drift.features import Side
from observability.drift.reference import Layout

#: One hash tag for all that drift keeps, which its scripts touch together.
PREFIX: Final = "penstock:{drift}:"
#: A hash: subject -> number of the slice in which it was first counted; its reference begins with the next one.
SUBJECTS: Final = f"{PREFIX}subjects"
DAY_SECONDS: Final = 86_400


class Subject(msgspec.Struct, frozen=True, array_like=True):
    """A subject. `version` is empty for what clients send, and for a version without a name; `days` is the length of
    its reference: with another one it is another subject, whose reference begins anew.
    """

    model: str
    side: Side
    version: str
    days: int

    @property
    def name(self) -> str:
        """Its name in the store."""
        return msgspec.json.encode(self).decode()

    @property
    def layout(self) -> Layout:
        """How its time is cut."""
        return Layout(days=self.days)

    def slice_key(self, number: int) -> str:
        """Where the counts of a slice are in the store."""
        return f"{PREFIX}slice:{number}:{self.name}"


def slice_seconds(layout: Layout) -> float:
    """Seconds of a slice."""
    return DAY_SECONDS / layout.slots
