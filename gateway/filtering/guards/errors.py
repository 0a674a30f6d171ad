"""Guards that cannot be had at all, which is found when the gateway starts."""

from observability.printable import printable


class GuardUnusable(Exception):
    """`where` is the field of the configuration, `problem` one line for whoever wrote it."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = printable(problem)
        super().__init__(f"{where}: {self.problem}")
