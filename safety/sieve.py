"""A glance at a text, in one pass for all filters: in most texts nothing is found, and so none of them need be asked.

What filters cost a request is less their work than the code and tables that a busy worker's caches have lost since the
last one. So it is one database for all that is worth it, and little else.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from safety.languages import OTHER_LETTERS, may_be_another
from safety.patterns import CHARACTERS, Sign, Watch
from safety.plain_text import STRANGERS

#: Longer texts are looked at filter by filter: beside that a glance is nothing.
LONGEST: Final = 8192
#: Signs of the database, which takes a second to build for so many.
MOST_SIGNS: Final = 40_000
_NOT_PLAIN: Final = Sign(STRANGERS, CHARACTERS)


class Signs(NamedTuple):
    """What the bytes of every plain text have in which a filter finds anything, with a blank before and after them.

    That is one of `telling`, or, in a text of several lines, one of `of_lines`. With `weighs_languages` nothing can be
    told of texts in other languages, with `only_ascii` of any that is not ASCII.
    """

    telling: Collection[Sign]
    of_lines: Collection[Sign] = ()
    weighs_languages: bool = False
    only_ascii: bool = False


class Sieved(Protocol):
    """A filter that a glance may spare."""

    @property
    def signs(self) -> Signs | None:
        """None: it has to be asked about every text."""
        ...


class _Known(NamedTuple):
    """A filter, which keeps its identity as long as it is kept, its signs, and what looks for those of lines."""

    filter: Sieved
    signs: Signs
    lines: Watch | None


class Sieve:
    """The signs of several filters. May be used by several threads."""

    def __init__(self, filters: Iterable[Sieved]) -> None:
        """Those whose signs are too many beside the ones of others before them have to be asked about every text."""
        telling: dict[Sign, None] = {_NOT_PLAIN: None}
        self._known: dict[int, _Known] = {}
        #: Filters of one kind share theirs.
        watches: dict[frozenset[Sign], Watch | None] = {frozenset(): None}
        for filter_ in filters:
            signs = filter_.signs
            if signs is None or len(telling) + len(signs.telling) > MOST_SIGNS:
                continue
            of_lines = frozenset(signs.of_lines)
            if of_lines not in watches:
                watches[of_lines] = Watch(list(of_lines))
            self._known[id(filter_)] = _Known(filter_, signs, watches[of_lines])
            telling |= dict.fromkeys(signs.telling)
        self._telling = Watch(list(telling), OTHER_LETTERS)

    def glance(self, filters: Sequence[Sieved]) -> "Glance":
        """For some of the filters."""
        return Glance(self._telling, [self._known.get(id(filter_)) for filter_ in filters])


class Glance:
    """Says which of some filters have to be asked about a text."""

    def __init__(self, telling: Watch, of_each: Sequence[_Known | None]) -> None:
        """`of_each` is what the sieve knows of each filter."""
        known = [each for each in of_each if each is not None]
        self._look = telling.look
        self._look_at_lines = [watch.look for watch in {each.lines for each in known} if watch is not None]
        self._weighs_languages = any(each.signs.weighs_languages for each in known)
        self._only_ascii = any(each.signs.only_ascii for each in known)
        self._every = range(len(of_each))
        self._unknown = [index for index, each in enumerate(of_each) if each is None]

    def to_ask(self, text: str) -> Sequence[int]:
        """Their places in the list."""
        if len(text) > LONGEST:
            return self._every
        try:
            data = f" {text} ".encode()
        except UnicodeEncodeError:
            return self._every
        noted = self._look(data)
        if noted is None or (noted and self._weighs_languages and may_be_another(len(text), len(data) - 2)):
            return self._every
        if "\n" in text:
            for look in self._look_at_lines:
                if look(data) is None:
                    return self._every
        if self._only_ascii and not text.isascii():
            return self._every
        return self._unknown
