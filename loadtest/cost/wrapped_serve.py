"""Runs `penstock` with workers that another program starts: `python -m loadtest.cost.wrapped_serve PROGRAM serve ...`.

PROGRAM gets the interpreter's arguments, as the interpreter would.
"""

import importlib
import multiprocessing
import sys
from multiprocessing import resource_tracker

if __name__ == "__main__":
    resource_tracker.ensure_running()  # it is no worker
    multiprocessing.set_executable(sys.argv[1])
    sys.exit(importlib.import_module("gateway.cli.main").main(sys.argv[2:]))
