"""Encode clients' values as JSON: what can be decoded cannot always be encoded."""

from typing import Any, Final

import orjson

from protos.errors import InvalidRequest

#: Levels of nesting that may be added around a value where it is shown.
_AROUND: Final = 4


def encoded_json(value: Any, param: str | None = None) -> bytes:
    """Encode the value. Raises InvalidRequest where it is nested too deeply, or holds a number of too many digits."""
    for _ in range(_AROUND):
        value = [value]
    try:
        return orjson.dumps(value)[_AROUND:-_AROUND]
    except TypeError:
        raise InvalidRequest(
            "The request is nested too deeply, or has a whole number of more than 64 bits.", param=param
        ) from None
