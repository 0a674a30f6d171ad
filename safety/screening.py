"""How texts are screened: a factory of screens."""

from collections.abc import Sequence

import msgspec

from safety.prefilter import PrefilterPass
from safety.screen import Rule, Screen


class Screening(msgspec.Struct, frozen=True):
    """A factory of screens: the rules, the prefilter pass for whole texts, and whether failures are skipped."""

    rules: Sequence[Rule]
    prefilter_pass: PrefilterPass | None = None
    fail_open: bool = False

    def __call__(self) -> Screen:
        """Return a screen for one text."""
        return Screen(self.rules, self.prefilter_pass, self.fail_open)
