"""Prefilter a text for all filters in one pass: in most texts it finds nothing, so no filter has to scan them.

The cost of filters per request is mostly cache misses on their code and tables in a busy worker. So the prefilter is
one Hyperscan database for all filters whose signs fit, and little else.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from safety.languages import OTHER_LETTERS, may_be_other_language
from safety.patterns import CHARACTERS, Sign, SignDatabase, SignFound
from safety.plain_text import NOT_PLAIN, prepare_plain_text

#: Longer texts go straight to every filter; for them the prefilter saves too little.
LONGEST: Final = 8192
#: The most signs in the database; building it for so many takes a second.
MOST_SIGNS: Final = 40_000
_NOT_PLAIN: Final = Sign(NOT_PLAIN, CHARACTERS)
#: The number of spaces added around a text.
_PADDING: Final = 2


class Signs(NamedTuple):
    """Necessary conditions for a match: bytes that every plain text with a match has, with a space before and after it.

    Such a text has one of `telling`, or, if it has several lines, `in_lines` is true of it. With `weighs_languages`
    texts in other languages always go to the filter, with `only_ascii` all texts that are not ASCII.
    """

    telling: Collection[Sign]
    in_lines: Callable[[bytes], bool] | None = None
    weighs_languages: bool = False
    only_ascii: bool = False


class Prefiltered(Protocol):
    """A filter that the prefilter may skip."""

    @property
    def signs(self) -> Signs | None:
        """The filter's signs; None if it has to scan every text."""
        ...


#: Returns the indices of the filters that have to scan a text.
PrefilterPass = Callable[[str], Sequence[int]]


class Prefilter:
    """A shared database of the signs of several filters. Thread-safe."""

    def __init__(self, filters: Iterable[Prefiltered]) -> None:
        """Filters whose signs would exceed MOST_SIGNS, in order, have to scan every text."""
        prepare_plain_text()
        telling: dict[Sign, None] = {_NOT_PLAIN: None}
        #: Keeps a reference to each filter, so that its id stays valid.
        self._signs: dict[int, tuple[Prefiltered, Signs]] = {}
        for filter_ in filters:
            signs = filter_.signs
            if signs is not None and len(telling) + len(signs.telling) <= MOST_SIGNS:
                self._signs[id(filter_)] = filter_, signs
                telling |= dict.fromkeys(signs.telling)
        self._database = SignDatabase([*telling, OTHER_LETTERS])
        #: Keyed by the ids of known filters; None stands for an unknown one.
        self._prefilter_passes: dict[tuple[int | None, ...], PrefilterPass] = {}

    def prefilter_pass(self, filters: Sequence[Prefiltered]) -> PrefilterPass:
        """Return the pass for some filters; unknown filters, which may be new for each request, scan every text."""
        those = tuple([id(filter_) if id(filter_) in self._signs else None for filter_ in filters])
        prefilter_pass = self._prefilter_passes.get(those)
        if prefilter_pass is None:
            self._prefilter_passes[those] = prefilter_pass = self._new_prefilter_pass(filters)
        return prefilter_pass

    def _new_prefilter_pass(self, filters: Sequence[Prefiltered]) -> PrefilterPass:
        known = [self._signs.get(id(filter_)) for filter_ in filters]
        signs = [each[1] for each in known if each is not None]
        telling = {_NOT_PLAIN, *(sign for each in signs for sign in each.telling)}
        scan, local, on_match = self._database.scan, self._database.local, self._database.stop_at(telling)
        on_match_in_another = on_match
        if any(each.weighs_languages for each in signs):
            on_match_in_another = self._database.stop_at({*telling, OTHER_LETTERS})
        in_lines = list(dict.fromkeys(each.in_lines for each in signs if each.in_lines is not None))
        only_ascii = any(each.only_ascii for each in signs)
        every = range(len(filters))
        unknown = [index for index, each in enumerate(known) if each is None]

        def to_ask(text: str) -> Sequence[int]:
            if len(text) > LONGEST or (only_ascii and not text.isascii()):
                return every
            try:
                data = f" {text} ".encode()
                another = may_be_other_language(len(text), len(data) - _PADDING)
                scan(data, on_match_in_another if another else on_match, 0, None, local.scratch)
            except (SignFound, UnicodeEncodeError):
                return every
            if "\n" in text and any(is_in(data) for is_in in in_lines):
                return every
            return unknown

        return to_ask
