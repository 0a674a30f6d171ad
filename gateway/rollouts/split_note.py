"""A note of this machine on which version of each model is stable, for a start while the store is away."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from gateway.store.unreadable import UNREADABLE
from routing.rollouts.split import Split

log = logging.getLogger(__name__)

#: The file in the folder of local state.
NOTE_FILE: Final = "versions.json"


class _Noted(msgspec.Struct, frozen=True):
    stable: str
    configured: str


class SplitNote:
    """A file that is written whole or not at all, by any worker: all of them write the same.

    A candidate's share is not noted: by the time of the next start it may have been rolled back.
    """

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / NOTE_FILE
        self._written: dict[str, _Noted | None] | None = None
        self._failing = False

    def read(self) -> dict[str, Split | None]:
        """Return the split of each model that is noted, None where no rollout had changed its version by then."""
        return {
            model: None if one is None else Split(model=model, stable=one.stable, configured=one.configured)
            for model, one in (self._read() or {}).items()
        }

    def write(self, splits: Mapping[str, Split | None]) -> None:
        """Note what the store says of all models; None: it says nothing of one."""
        noted = {
            model: None if split is None else _Noted(split.stable, split.configured)
            for model, split in sorted(splits.items())
        }
        if self._written is None:
            self._written = self._read()
        if noted == self._written:
            return
        temporary = None
        try:
            with tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=".", suffix=".json", delete=False) as file:
                temporary = file.name
                file.write(msgspec.json.encode(noted))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path)
            self._written, self._failing = noted, False
        except OSError as error:
            if not self._failing:
                self._failing = True
                log.warning(
                    "%s cannot be written: %s; without the store the next start goes by the file's versions",
                    self._path,
                    error.strerror or error,
                )
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def _read(self) -> dict[str, _Noted | None] | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, _Noted | None])
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
            log.warning("%s cannot be read: %s", self._path, error)
            return None
