"""The filter of personal data and secrets."""

from collections.abc import Collection
from typing import Final

from safety.calm import CalmEnd
from safety.match import Match, merged
from safety.pii.beginnings import prepare_beginnings
from safety.pii.columns import KINDS_OF_CELLS, header_signs
from safety.pii.context import prepare_context
from safety.pii.kinds import ALL, KINDS
from safety.pii.pii_stream import PiiStream, calm_end
from safety.pii.places import prepare_places, table
from safety.pii.text_window import WINDOW
from safety.prefilter import Signs


class PiiFilter:
    """A `StreamFilter` for some kinds; the labels of its matches are the kinds' names."""

    window: Final = WINDOW
    calm_end: Final[CalmEnd] = staticmethod(calm_end)

    def __init__(self, kinds: Collection[str] = ALL) -> None:
        """Raises ValueError for an unknown kind."""
        unknown = sorted(set(kinds) - set(KINDS))
        if unknown:
            raise ValueError(f"no such kind: {', '.join(unknown)}")
        # Compiles the rules at start-up, not in the first request.
        prepare_beginnings()
        prepare_context()
        prepare_places()
        self.kinds: Final = frozenset(kinds)
        self.signs: Final = Signs(table().signs, header_signs().any_in if self.kinds & KINDS_OF_CELLS else None)

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        return merged(PiiStream(self.kinds).whole(text))

    def stream(self) -> PiiStream:
        return PiiStream(self.kinds)
