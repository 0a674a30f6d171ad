"""`penstock` in a process where the fake is the library: `python -m tests.fake_tensorrt_llm.cli replica ...`."""

import sys

from gateway.cli.main import main
from tests.fake_tensorrt_llm import package as fake_tensorrt_llm

if __name__ == "__main__":
    fake_tensorrt_llm.install()
    sys.exit(main())
