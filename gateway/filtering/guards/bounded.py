"""Bound the questions to a guard: their time, their concurrency, and no question twice."""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Final, Protocol

from gateway.caching.lru import Lru
from gateway.config.safety.guards import Asking
from gateway.filtering.guards.verdicts import checked, kind_of
from safety.guard import GuardFailed
from safety.match import Match

_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 16
_GIVEN_UP: Final = "it was given up"


class GuardBackend(Protocol):
    """The backend of a guard. It need not bound its time, and may be cancelled at any moment."""

    async def ask(self, text: str, prompt: str | None, tenant: str) -> object:
        """Return the matches in a text, in order; `prompt`: the text is an answer to it. Raises GuardFailed.

        The time of one tenant's question must not depend on another tenant's.
        """
        ...

    async def aclose(self) -> None:
        """Cancel what is running."""
        ...


class BoundedGuard:
    """A `safety.guard.Guard` in front of a backend.

    A question that is running is not asked twice, however many wait for its verdict; when the last of them leaves, it
    is cancelled. Verdicts are cached under a hash of text, prompt and tenant, with a key of this process: the cache
    reveals no text, and its timing reveals nothing to other tenants. Failures are not cached.
    """

    def __init__(self, guard: GuardBackend, settings: Asking, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds, for the age of verdicts."""
        self._guard = guard
        self._seconds = settings.timeout_seconds
        self._turns = asyncio.Semaphore(settings.concurrency)
        self._remembers = settings.cache_size > 0
        self._cache: Lru[bytes, tuple[float, tuple[Match, ...]]] = Lru(settings.cache_size)
        self._cache_seconds = settings.cache_seconds
        self._clock = clock
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._open: dict[bytes, _Question] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def verdict(self, text: str, prompt: str | None = None, tenant: str = "") -> list[Match]:
        """Return the matches in order; several may cover the same span. Raises GuardFailed within the guard's time
        limit.

        `prompt`: the text is an answer to it. Tenants share no verdicts.
        """
        if not text:
            return []
        name = self._name_of(text, prompt, tenant)
        known = self._cache.get(name)
        if known is not None:
            if self._clock() < known[0]:
                return list(known[1])
            self._cache.discard(name)
        question = self._open.get(name) or self._begin(name, text, prompt, tenant)
        question.waiters += 1
        try:
            verdict = await asyncio.shield(question.verdict)
        finally:
            question.waiters -= 1
            if not question.waiters:
                self._end(name, question, _GIVEN_UP)
        if isinstance(verdict, str):
            raise GuardFailed(verdict)
        return list(verdict)

    async def aclose(self) -> None:
        """Cancel all questions; those who wait get a GuardFailed."""
        for name, question in list(self._open.items()):
            self._end(name, question, _GIVEN_UP)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._guard.aclose()

    def _name_of(self, text: str, prompt: str | None, tenant: str) -> bytes:
        digest = hashlib.blake2b(key=self._key, digest_size=_DIGEST_BYTES)
        for part in (tenant, prompt, text):
            data = b"" if part is None else part.encode("utf-8", "surrogatepass")
            digest.update(b"-" if part is None else b"%d:" % len(data))
            digest.update(data)
        return digest.digest()

    def _begin(self, name: bytes, text: str, prompt: str | None, tenant: str) -> "_Question":
        loop = asyncio.get_running_loop()
        question = self._open[name] = _Question(loop.create_future())
        question.task = loop.create_task(self._ask(name, question, text, prompt, tenant))
        self._tasks.add(question.task)
        question.task.add_done_callback(self._tasks.discard)
        # A timer of its own: a backend that ignores its cancellation delays nobody.
        problem = f"no verdict within {self._seconds:g} s"
        question.timer = loop.call_later(self._seconds, self._end, name, question, problem)
        return question

    async def _ask(self, name: bytes, question: "_Question", text: str, prompt: str | None, tenant: str) -> None:
        problem = _GIVEN_UP
        try:
            async with self._turns:
                found = await self._guard.ask(_sendable(text), None if prompt is None else _sendable(prompt), tenant)
            matches = checked(found, len(text))
        except GuardFailed as error:
            problem = error.problem
        except Exception as error:
            problem = kind_of(error)
        else:
            # A late verdict is still a verdict.
            if self._remembers:
                self._cache.put(name, (self._clock() + self._cache_seconds, matches))
            question.settle(matches)
        finally:
            self._end(name, question, problem)

    def _end(self, name: bytes, question: "_Question", problem: str) -> None:
        """Report the problem to those who still wait. Idempotent."""
        if self._open.get(name) is question:
            del self._open[name]
        question.settle(problem)
        if question.timer is not None:
            question.timer.cancel()
        if question.task is not None and question.task is not asyncio.current_task():
            question.task.cancel()


def _sendable(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded, by question marks of the same length."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class _Question:
    """A running question. A problem is its result as a text, so that nothing is raised where nobody waits."""

    __slots__ = ("task", "timer", "verdict", "waiters")

    def __init__(self, verdict: "asyncio.Future[tuple[Match, ...] | str]") -> None:
        self.verdict = verdict
        self.waiters = 0
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def settle(self, verdict: tuple[Match, ...] | str) -> None:
        """Set the result; the first one counts."""
        if not self.verdict.done():
            self.verdict.set_result(verdict)
