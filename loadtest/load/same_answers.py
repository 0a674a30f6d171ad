"""Checks that filters leave their benchmark's prompts and answers unchanged: it measures scanning, not acting."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from loadtest.load.processes import BenchError
from loadtest.load.stack import Stack


class AnswerText(NamedTuple):
    """An answer's text and finish reason, streamed or not."""

    text: str
    finish_reason: str


def require_same_answers(stack: Stack, bodies: Sequence[bytes]) -> None:
    """Send each body with filters and without; an engine must give the same answer each time.

    Raises BenchError where a request fails or an answer differs.
    """
    with ThreadPoolExecutor(2 * len(bodies)) as threads:
        without = [threads.submit(stack.ask, body, "plain") for body in bodies]
        filtered = [threads.submit(stack.ask, body, "filtered") for body in bodies]
    for one, other in zip(without, filtered, strict=True):
        expected, found = answer_text(one.result()), answer_text(other.result())
        if found != expected:
            raise BenchError(
                f"filters change what they are measured with: {found.text!r} ({found.finish_reason}) instead of "
                f"{expected.text!r} ({expected.finish_reason})"
            )


def answer_text(answer: bytes) -> AnswerText:
    """Read an answer's text and finish reason from its body, streamed or not."""
    events = [line.removeprefix(b"data: ") for line in answer.splitlines() if line.startswith(b"data: {")]
    choices = [choice for event in events or [answer] for choice in json.loads(event).get("choices", ())]
    texts = [(choice.get("delta") or choice.get("message") or {}).get("content") or "" for choice in choices]
    return AnswerText("".join(texts), "".join(choice.get("finish_reason") or "" for choice in choices))
