"""What benchmarks have in common at their end: their options as JSON, and the error of a library that is missing."""

import argparse
import json
from typing import Any

from observability.terminal import fail


def options_as_json(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return a benchmark's options as JSON values, but for those that say where its results go."""
    given = {name: value for name, value in vars(arguments).items() if name not in ("run", "json", "plot")}
    options: dict[str, Any] = json.loads(json.dumps(given, default=str))
    return options


def missing_library(error: ModuleNotFoundError) -> int:
    """Say what is to be installed; returns the exit status."""
    return fail("bench", f"{error.name} is not installed; try: pip install 'penstock[bench]'")
