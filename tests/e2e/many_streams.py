"""Many streamed answers at once, read by one event loop, each with the times at which its tokens came."""

import asyncio
import time
from collections.abc import Sequence

import orjson

from tests.e2e.raw import chat, request_bytes
from tests.e2e.stack import HANGS_SECONDS, Stack


class Answer:
    """One answer; `problem` says why it is not a whole one."""

    def __init__(self, number: int, max_tokens: int) -> None:
        self.body = chat(
            f"Question {number}?", stream=True, seed=7, temperature=0, max_tokens=max_tokens, ignore_eos=True
        )
        self.text = ""
        self.began = 0.0
        self.times: list[float] = []
        self.problem = "it has not ended"

    @property
    def ttft(self) -> float:
        return self.times[0] - self.began

    async def read(self, stack: Stack) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", stack.port)
        try:
            self.began = time.monotonic()
            writer.write(request_bytes(stack, orjson.dumps(self.body)))
            status = await reader.readline()
            if b" 200 " not in status:
                self.problem = f"{status!r} {await reader.read(2000)!r}"
                return
            while line := await reader.readline():
                if line.startswith(b"data: ") and not self._take(line[6:-1]):
                    return
            self.problem = "the connection ended"
        finally:
            writer.close()

    def _take(self, data: bytes) -> bool:
        if data == b"[DONE]":
            self.problem = ""
            return False
        event = orjson.loads(data)
        if "error" in event:
            self.problem = f"{event['error']}"
            return False
        text = event["choices"][0]["delta"].get("content") if event["choices"] else None
        if text:
            self.times.append(time.monotonic())
            self.text += text
        return True


def answers_of(numbers: Sequence[int], max_tokens: int) -> list[Answer]:
    return [Answer(number, max_tokens) for number in numbers]


def problems(answers: Sequence[Answer]) -> list[str]:
    return [answer.problem for answer in answers if answer.problem]


async def read_all(stack: Stack, answers: Sequence[Answer]) -> None:
    await asyncio.gather(*(answer.read(stack) for answer in answers))


async def all_begun(answers: Sequence[Answer], seconds: float = HANGS_SECONDS) -> None:
    """Once every one of them has a token."""
    async with asyncio.timeout(seconds):
        while not all(answer.times for answer in answers):  # noqa: ASYNC110 (they have no event)
            await asyncio.sleep(0.01)
