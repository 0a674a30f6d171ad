"""The seam of guards: filters that call a model or a service about a text, so they take time and can fail."""

from typing import Protocol

from safety.match import Match


class GuardFailed(Exception):
    """A guard gave no verdict. `problem` is for the log and contains nothing of the text."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Guard(Protocol):
    """Classify whole texts with a model or a service."""

    async def verdict(self, text: str, prompt: str | None = None, tenant: str = "") -> list[Match]:
        """Return the matches in order; a match about the text as a whole covers all of it, and there may be several.

        `prompt` is the prompt that the text answers. The time of one tenant's call must not reveal what another tenant
        sent. Raises GuardFailed within the guard's time limit.
        """
        ...
