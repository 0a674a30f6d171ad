"""A script, `run_held.py FD COMMAND...`: writes its process id into the open lock file FD, and becomes the command.

The command keeps FD, and with it the lock, for as long as it lives. The script imports nothing of the project, so that
it starts in milliseconds; after the exec nothing of it is left in memory.
"""

import os
import sys


def main(arguments: list[str]) -> None:
    """Write the process id and exec the command.

    Raises:
        SystemExit: The command cannot be run.
    """
    descriptor, command = int(arguments[0]), arguments[1:]
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
