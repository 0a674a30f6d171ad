"""One gateway for all clients: a replica that says what it is told to, and an upstream that makes embeddings."""

import asyncio
import json
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import openai
import pytest

from tests.clients.answers import ANSWERS, THINKING_ANSWERS
from tests.clients.thinking_model import CONTEXT, NAME, write_thinking_model
from tests.e2e.stack import HANGS_SECONDS, Stack, config_text
from tests.gateway.api.embedding_upstream import Embedder
from tests.ports import free_port
from tests.upstreams import upstream

EMBEDDER = "text-embedding-3-small"


def _write_answers(path: Path, answers: Iterable[tuple[str, str]]) -> None:
    lines = (json.dumps({"contains": asked, "answer": answer}) for asked, answer in answers)
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture(scope="session")
def embedder() -> Iterator[str]:
    """The base URL of an upstream with embeddings, in a loop and a thread of its own."""
    ready, urls = threading.Event(), list[str]()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def main() -> None:
        async with upstream() as fake:
            Embedder(fake)
            urls.append(fake.url)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), name="embedder")
    thread.start()
    ready.wait()
    yield urls[0]
    loop.call_soon_threadsafe(ended.set)
    thread.join()
    loop.close()


@pytest.fixture(scope="session")
def site(embedder: str) -> Iterator[Stack]:
    """A whole `penstock serve`: a model that has one of OpenAI's names too, one that thinks, and one that embeds."""
    with tempfile.TemporaryDirectory(prefix="penstock-clients-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _write_answers(folder / "answers.jsonl", ANSWERS)
        _write_answers(folder / "thinking.jsonl", THINKING_ANSWERS)
        tokenizer = write_thinking_model(folder / "thinking")
        more = (
            f"  - name: {NAME}\n    tokenizer: {tokenizer}\n    context: {CONTEXT}\n"
            "    pools: [{name: thinking, engine: simulated, replicas: 1, "
            "simulated: {instant: true, answers: thinking.jsonl}}]\n"
            f"  - name: {EMBEDDER}\n    context: 8192\n"
            f"    pools: [{{name: vectors, engine: openai, replicas: [{embedder}]}}]\n"
        )
        text = config_text(free_port(), workers=1, simulated="instant: true, answers: answers.jsonl", more=more)
        text = text.replace("    context: 32768\n", "    context: 32768\n    aliases: [gpt-4o]\n")
        stack = Stack(folder, text)
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


@pytest.fixture(scope="session")
def openai_client(site: Stack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=site.base_url, api_key=site.key, max_retries=0, timeout=HANGS_SECONDS) as made:
        yield made
