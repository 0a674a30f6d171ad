"""A glance at a text, in one pass for all filters: in most texts nothing is found, and so none of them need be asked.

What filters cost a request is less their work than the code and tables that a busy worker's caches have lost since the
last one. So it is one database for all that is worth it, and little else.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from safety.languages import OTHER_LETTERS, may_be_another
from safety.patterns import CHARACTERS, Found, Sign, Watch
from safety.plain_text import STRANGERS

#: Longer texts are looked at filter by filter: beside that a glance is nothing.
LONGEST: Final = 8192
#: Signs of the database, which takes a second to build for so many.
MOST_SIGNS: Final = 40_000
_NOT_PLAIN: Final = Sign(STRANGERS, CHARACTERS)
#: Blanks before and after a text.
_PADDING: Final = 2


class Signs(NamedTuple):
    """What the bytes of every plain text have in which a filter finds anything, with a blank before and after them.

    That is one of `telling`, or, in a text of several lines, something of which `in_lines` knows. With
    `weighs_languages` nothing can be told of texts in other languages, with `only_ascii` of any that is not ASCII.
    """

    telling: Collection[Sign]
    in_lines: Callable[[bytes], bool] | None = None
    weighs_languages: bool = False
    only_ascii: bool = False


class Prefiltered(Protocol):
    """A filter that a glance may spare."""

    @property
    def signs(self) -> Signs | None:
        """None: it has to be asked about every text."""
        ...


#: Says which of some filters have to be asked about a text, by their places in the list.
PrefilterPass = Callable[[str], Sequence[int]]


class Prefilter:
    """The signs of several filters. May be used by several threads."""

    def __init__(self, filters: Iterable[Prefiltered]) -> None:
        """Those whose signs are too many beside the ones of others before them have to be asked about every text."""
        telling: dict[Sign, None] = {_NOT_PLAIN: None}
        #: With each filter, which keeps its identity as long as it is kept.
        self._signs: dict[int, tuple[Prefiltered, Signs]] = {}
        for filter_ in filters:
            signs = filter_.signs
            if signs is not None and len(telling) + len(signs.telling) <= MOST_SIGNS:
                self._signs[id(filter_)] = filter_, signs
                telling |= dict.fromkeys(signs.telling)
        self._watch = Watch([*telling, OTHER_LETTERS])
        #: By the identity of the filters that are known; of those that are not only the places matter.
        self._prefilter_passes: dict[tuple[int | None, ...], PrefilterPass] = {}

    def prefilter_pass(self, filters: Sequence[Prefiltered]) -> PrefilterPass:
        """For some of the filters; others, which may be new for each request, are always to be asked."""
        those = tuple([id(filter_) if id(filter_) in self._signs else None for filter_ in filters])
        prefilter_pass = self._prefilter_passes.get(those)
        if prefilter_pass is None:
            self._prefilter_passes[those] = prefilter_pass = self._new_prefilter_pass(filters)
        return prefilter_pass

    def _new_prefilter_pass(self, filters: Sequence[Prefiltered]) -> PrefilterPass:
        known = [self._signs.get(id(filter_)) for filter_ in filters]
        signs = [each[1] for each in known if each is not None]
        telling = {_NOT_PLAIN, *(sign for each in signs for sign in each.telling)}
        scan, own, tell = self._watch.scan, self._watch.own, self._watch.ending_at(telling)
        tell_of_another = tell
        if any(each.weighs_languages for each in signs):
            tell_of_another = self._watch.ending_at({*telling, OTHER_LETTERS})
        in_lines = list(dict.fromkeys(each.in_lines for each in signs if each.in_lines is not None))
        only_ascii = any(each.only_ascii for each in signs)
        every = range(len(filters))
        unknown = [index for index, each in enumerate(known) if each is None]

        def to_ask(text: str) -> Sequence[int]:
            if len(text) > LONGEST or (only_ascii and not text.isascii()):
                return every
            try:
                data = f" {text} ".encode()
                another = may_be_another(len(text), len(data) - _PADDING)
                scan(data, tell_of_another if another else tell, 0, None, own.scratch)
            except (Found, UnicodeEncodeError):
                return every
            if "\n" in text and any(is_in(data) for is_in in in_lines):
                return every
            return unknown

        return to_ask
