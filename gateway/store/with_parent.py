"""A script, `with_parent.py PARENT_PID COMMAND...`: becomes the command, which then dies with its parent.

It imports nothing of the project, so that it starts in milliseconds; after the exec nothing of it is left in memory.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Ask the kernel for SIGTERM at the parent's death (Linux only), then exec the command.

    Raises:
        SystemExit: The parent is gone already, or the command cannot be run.
    """
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent process is gone")
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"# {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
