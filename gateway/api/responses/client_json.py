"""JSON of what clients have sent: it is read more freely than it can be written."""

from typing import Any, Final

import orjson

from protos.errors import InvalidRequest

#: So many lists and objects more may be around it, wherever it is shown.
_AROUND: Final = 4


def written(value: Any, param: str | None = None) -> bytes:
    """The value as JSON. Raises InvalidRequest where it is nested too deeply, or holds a number of too many digits."""
    for _ in range(_AROUND):
        value = [value]
    try:
        return orjson.dumps(value)[_AROUND:-_AROUND]
    except TypeError:
        raise InvalidRequest(
            "The request is nested too deeply, or has a whole number of more than 64 bits.", param=param
        ) from None
