"""Streams at a rate, beside a test: what comes of each is kept."""

import asyncio
import contextlib
import threading
import time

import orjson

from tests.e2e.raw import request_bytes
from tests.e2e.stack import Stack


class Crowd:
    """Asks a model at `rate` requests a second, which may be changed, from `start` until `stop`."""

    def __init__(
        self, stack: Stack, model: str, rate: float, *, words: int = 300, tokens: int = 100, key: str = ""
    ) -> None:
        """`key` is whose requests these are; empty: the stack's own key."""
        self.rate = rate
        self.answered = 0
        self.open = 0
        #: What went wrong, with the seconds since the start.
        self.failures: list[str] = []
        self._stack = stack
        self._model = model
        self._words, self._tokens = words, tokens
        self._key = key or stack.key
        self._began = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def stop(self, seconds: float = 60.0) -> None:
        """Ask no more, and wait for the answers under way."""
        self._stopping.set()
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"{self.open} answers have not ended"

    async def _run(self) -> None:
        tasks: set[asyncio.Task[None]] = set()
        number, due = 0, time.monotonic()
        while not self._stopping.is_set():
            number += 1
            task = asyncio.create_task(self._ask(number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            due = max(due + 1.0 / self.rate, time.monotonic() - 1.0)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.gather(*tasks)

    async def _ask(self, number: int) -> None:
        self.open += 1
        try:
            problem = await self._answer(number)
        except (OSError, asyncio.IncompleteReadError) as error:
            problem = repr(error)
        self.open -= 1
        if problem:
            self.failures.append(f"{time.monotonic() - self._began:.1f} s: {problem}")
        else:
            self.answered += 1

    async def _answer(self, number: int) -> str:
        """Ask once; return what was wrong with the answer."""
        content = f"{number} " + "river stone cloud table " * (self._words // 4)
        body = {"model": self._model, "stream": True, "max_tokens": self._tokens, "ignore_eos": True}
        body["messages"] = [{"role": "user", "content": content}]
        reader, writer = await asyncio.open_connection("127.0.0.1", self._stack.port)
        try:
            headers = {"Connection": "close", "Authorization": f"Bearer {self._key}"}
            writer.write(request_bytes(self._stack, orjson.dumps(body), headers=headers))
            answer = await reader.read(-1)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return (
            ""
            if answer.startswith(b"HTTP/1.1 200") and b"data: [DONE]" in answer
            else f"{answer[:15]!r} {answer[-300:]!r}"
        )
