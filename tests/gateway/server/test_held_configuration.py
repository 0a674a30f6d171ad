import asyncio
from pathlib import Path

import msgspec
import pytest

from gateway.config.secret_variables import LateSecrets
from gateway.config.settings import Config
from gateway.reload.watched_file import WatchedFile
from gateway.server.held_configuration import HeldConfiguration
from gateway.server.local_pools import LocalPools
from tests.gateway.reload.configs import base


def test_what_is_under_way_ends_with_it(state_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    config: Config = msgspec.structs.replace(base(), state=str(state_dir))
    file = state_dir / "penstock.yaml"
    file.write_text("{}")
    held = HeldConfiguration(config, WatchedFile(file), lambda _: config, LocalPools(config, LateSecrets()))
    ended: list[bool] = []

    async def long() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            # It may need the loop for its own end.
            await asyncio.sleep(0)
            ended.append(True)

    async def begin() -> None:
        held._loop.create_task(long())

    held.start()
    asyncio.run_coroutine_threadsafe(begin(), held._loop).result(5.0)
    held.stop()
    assert ended == [True]
    assert held._loop.is_closed()
    assert not caplog.records


def test_it_ends_with_nothing_under_way(state_dir: Path) -> None:
    config: Config = msgspec.structs.replace(base(), state=str(state_dir))
    file = state_dir / "penstock.yaml"
    file.write_text("{}")
    held = HeldConfiguration(config, WatchedFile(file), lambda _: config, LocalPools(config, LateSecrets()))
    held.start()
    held.stop()
    assert held._loop.is_closed()
