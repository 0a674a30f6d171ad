import logging
from pathlib import Path

import pytest

from gateway.endpoint_picker.readiness_log import ReadinessLog
from tests.gateway.endpoint_picker.pickers import picker


async def test_what_becomes_ready_and_does_not_stay_so_is_told_once(
    state_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with picker(state_dir, 2) as running:
        readiness = ReadinessLog(running.process.models.all)
        caplog.clear()
        readiness.begin()
        readiness.look()
        one, two = sorted(running.upstreams)
        assert caplog.messages == [f"model m: 2 of 2 endpoints; ready now: {one}, {two}"]
        caplog.clear()
        running.model.set_replicas(())
        readiness.look()
        (said,) = (message for message in caplog.messages if message.startswith("model m: 0 of "))
        assert said.endswith(f"not any more: {one}, {two}")
