"""Runs `penstock` with a counter of bytecodes in each worker: `python -m loadtest.cost.counted_serve SOCKET serve ...`.

Workers are spawned by multiprocessing, which imports this module in each of them before anything else, as
`__mp_main__`: that is where the counter comes in, and why a gateway that is started in any other way pays nothing.
"""

import importlib
import sys

if __name__ == "__main__":
    sys.exit(importlib.import_module("gateway.cli.main").main(sys.argv[2:]))

if __name__ == "__mp_main__":
    from loadtest.cost.counter_server import serve_counter

    serve_counter(sys.argv[1])
