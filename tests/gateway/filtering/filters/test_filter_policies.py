"""Built-in filters that no rules name are built for the first moderation, in a thread of their own."""

import asyncio
import threading

import pytest

from gateway.config.safety.settings import FilterSettings
from gateway.filtering.filters import filter_policies
from safety.filter import StreamFilter
from safety.terms import TermFilter
from tests.asgi import gateway_of
from tests.harness import engine_of


async def test_a_moderation_builds_missing_filters_once_and_off_the_event_loop(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[str, threading.Thread]] = []
    goes_on = threading.Event()

    def build(settings: FilterSettings, where: str) -> StreamFilter:
        built.append((settings.name, threading.current_thread()))
        assert goes_on.wait(10)
        return TermFilter("email", ["mail"], words=False)

    monkeypatch.setattr(filter_policies, "prompt_filter", build)
    async with gateway_of(store_url, engine_of()) as client:
        asked = [
            asyncio.create_task(client.request("POST", "/v1/moderations", {"input": "a mail", "model": model}))
            for model in ("pii", "pii")
        ]
        # The loop runs while the filter is built.
        answer = await client.request("GET", "/healthz")
        assert answer.status == 200
        goes_on.set()
        for each in await asyncio.gather(*asked):
            assert each.json["results"][0]["flagged"] is True
    assert [name for name, _ in built] == ["pii"]
    assert built[0][1] is not threading.main_thread()
