"""Assign the places of tenants with series of their own, in a list that all workers of a gateway share."""

import contextlib
from pathlib import Path
from typing import Final

import msgspec

from observability.metrics.metrics_folder import PLACES, replace, shared_lock
from observability.metrics.tenant_series import Wanted, places

_DECODER: Final = msgspec.json.Decoder(list[str])


def claim(folder: Path, wanted: Wanted, most: int) -> list[str] | None:
    """Return all tenants with a place, newly assigned ones included; None if another worker is at it. Raises
    OSError.
    """
    with shared_lock(folder) as mine:
        if not mine:
            return None
        path, given = folder / PLACES, list[str]()
        with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
            given = _DECODER.decode(path.read_bytes())
        names = places(wanted, given, most)
        if names != given:
            replace(path, msgspec.json.encode(names))
        return names
