"""Print the output of `penstock safety` commands, free of terminal control characters."""

import os
import sys
from typing import Final

from gateway.cli.safety.safe_text import one_line

#: The exit status where a text or a filter cannot be used, or the findings cannot be shown.
UNUSABLE: Final = 2


class Unusable(Exception):
    """A command cannot do its work; the text says why, and names the file or the field."""


def unusable(problem: object) -> int:
    """Print one line that says what is wrong, and return the exit status."""
    print(f"penstock safety: {one_line(str(problem))}", file=sys.stderr)
    return UNUSABLE


def put(text: str) -> None:
    """Print a text. Raises Unusable where standard output does not accept it."""
    try:
        print(text, flush=True)
    except UnicodeEncodeError as error:
        culprit = f"U+{ord(error.object[error.start]):04X}"
        problem = f"standard output is {sys.stdout.encoding}, which has no {culprit}; set PYTHONIOENCODING=utf-8"
        raise Unusable(problem) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is still buffered would fail once more at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Unusable(f"standard output: cannot be written: {error.strerror}") from error
