"""Weights read ahead by a thread of `penstock replica`, beside all else that it does."""

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from replicas.fast_start.page_cache import preload, weight_files

log = logging.getLogger(__name__)


def check_preload(folders: Sequence[Path]) -> None:
    """Check that there are weights. Raises ValueError."""
    for folder in folders:
        try:
            if not weight_files(folder):
                raise ValueError(f"--preload: {folder} has no weights: no *.safetensors and no *.engine")
        except OSError as error:
            raise ValueError(f"--preload: {error}") from error


def preload_meanwhile(folders: Sequence[Path]) -> None:
    """Begin to read the weights of checkpoints; what came of it is logged."""
    if folders:
        threading.Thread(target=_preload, args=(folders,), name="preload", daemon=True).start()


def _preload(folders: Sequence[Path]) -> None:
    began = time.monotonic()
    try:
        found = preload(folders)
    except (OSError, ValueError) as error:
        log.warning("weights cannot be read ahead: %s", error)
        return
    log.info(
        "%.2f of %.2f GB of weights are in the page cache, %.2f GB of them read in %.2f s%s",
        found.cached / 1e9,
        found.total / 1e9,
        found.read / 1e9,
        time.monotonic() - began,
        f"; {found.problem}" if found.problem else "",
    )
