"""Reads the JSON that an earlier run of the benchmark wrote."""

from pathlib import Path

import msgspec

from loadtest.cost.price import Prices
from loadtest.load.processes import BenchError


class _Run(msgspec.Struct, frozen=True):
    results: Prices


def read_run(path: Path) -> Prices:
    """Return the prices of an earlier run. Raises BenchError, which names the file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Run).results
    except (OSError, msgspec.DecodeError) as error:
        raise BenchError(f"{path} is no result of this benchmark: {error}") from None
