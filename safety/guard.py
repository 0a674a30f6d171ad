"""The seam of filters that ask somebody else about a text, and so take time and can fail."""

from typing import Protocol

from safety.match import Match


class GuardFailed(Exception):
    """There is no verdict. `problem` is for the log: it has nothing of the text in it."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Guard(Protocol):
    """Judges whole texts."""

    async def verdict(self, text: str, prompt: str | None = None, tenant: str = "") -> list[Match]:
        """The matches in order; one that is about the text as a whole covers all of it, and several may be.

        `prompt`: the text is an answer to that. What one tenant asks must not show in how long another one's question
        takes. Raises JudgeFailed, within the time that the guard is given.
        """
        ...
