"""A service with OpenAI's moderation API that flags texts by the words in them."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson

from tests.upstreams import Caller, Heard, Upstream, plain, upstream

#: What a text must have in it to be of a category.
WORDS = {"violence": "fight", "self-harm/intent": "hurt myself"}


def result(scores: Mapping[str, float | None], *, flagged: bool | None = None, threshold: float = 0.5) -> bytes:
    """An answer about one text, flagged where a score is over the threshold."""
    categories = {name: score is not None and score >= threshold for name, score in scores.items()}
    one: dict[str, Any] = {"flagged": any(categories.values()) if flagged is None else flagged}
    one |= {"categories": categories, "category_scores": dict(scores)}
    return orjson.dumps({"id": "modr-1", "model": "omni-moderation-latest", "results": [one]})


async def by_words(caller: Caller, heard: Heard) -> bool:
    """Answers each question by its words."""
    text = orjson.loads(heard.body)["input"]
    await caller.say(plain(result({name: 0.9 if word in text else 0.01 for name, word in WORDS.items()})))
    return True


@contextlib.asynccontextmanager
async def moderation() -> AsyncIterator[Upstream]:
    """One that listens; its endpoint is `url` and `/moderations`."""
    async with upstream() as service:
        service.behaves = by_words
        yield service
