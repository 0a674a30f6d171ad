import asyncio

import pytest

import gateway.rollouts.measures.measure_reporter as reporter_module
from gateway.rollouts.measures.measure_reporter import MOST_LATE, MeasureReporter
from protos.errors import RateLimited
from tests.loops import until
from tests.stores import running


async def test_unknown_ids_of_one_tenant_do_not_fill_a_worker(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter_module, "_LATE_SECONDS", 3600.0)
    async with running(store_url) as store:
        reporter = MeasureReporter(store, "w", lambda model: None)
        waiting = [asyncio.create_task(reporter.find("acme", f"chatcmpl-{at:024x}")) for at in range(MOST_LATE)]
        await until(lambda: reporter._late["acme"] == MOST_LATE)
        with pytest.raises(RateLimited, match="16 pieces of your feedback"):
            await reporter.find("acme", f"chatcmpl-{99:024x}")
        other = asyncio.create_task(reporter.find("lab", f"chatcmpl-{1:024x}"))
        await until(lambda: reporter._late["lab"] == 1)
        for task in (*waiting, other):
            task.cancel()
        await asyncio.gather(*waiting, other, return_exceptions=True)
        assert not reporter._late
