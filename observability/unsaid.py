"""What the log says of words that others have chosen, such as an upstream's: they may quote a prompt or an answer."""

import re
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def unsaid(words: str | bytes) -> str:
    """How much there is of them; nothing of nothing."""
    return f"{len(words)} characters that are not shown" if words else ""


def name_or_unsaid(words: str) -> str:
    """The words themselves where they are one name, such as an error's code."""
    return words if _NAME.fullmatch(words) else unsaid(words)
