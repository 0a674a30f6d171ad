"""Log lines: one form for every process, to standard error."""

import logging
import sys

_FORMAT = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"


def configure_logging(level: int = logging.INFO) -> None:
    """Send every logger of this process to standard error."""
    logging.basicConfig(level=level, format=_FORMAT, stream=sys.stderr, force=True)
