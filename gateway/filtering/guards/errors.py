"""Errors of guards that cannot be built, raised at start."""

from observability.printable import printable


class GuardUnusable(Exception):
    """A guard cannot be built. `where` is the configuration's field, `problem` one line for its author."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = printable(problem)
        super().__init__(f"{where}: {self.problem}")
