"""Search a text for anybody's regular expression, on RE2: in time linear in the text, and bounded memory."""

from functools import lru_cache
from typing import Any, Final

import re2

#: Expressions that are kept compiled, and RE2's memory for one, in bytes.
_MOST: Final = 128
_MEMORY: Final = 1 << 20


class Unsearchable(ValueError):
    """The expression is none of RE2's, or the text no Unicode."""


def occurs(expression: str, text: str) -> bool:
    """Whether the expression matches anywhere in the text. Raises Unsearchable."""
    try:
        return _compiled(expression).search(text) is not None
    except (re2.error, UnicodeEncodeError) as error:
        raise Unsearchable(str(error)) from error


@lru_cache(_MOST)
def _compiled(expression: str) -> Any:
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MEMORY
    return re2.compile(expression, options=options)
