"""The end of a controller is over before its parent's patience is."""

import asyncio
from typing import cast

import pytest

from gateway.scaling import serve_controller
from gateway.scaling.controller import Controller
from gateway.scaling.serve_controller import END_SECONDS, STOP_SECONDS
from gateway.server.supervisor import CONTROLLER_STOP_SECONDS
from replicas.launchers.launcher import LauncherError
from replicas.launchers.local_launcher import KILL_MARGIN_SECONDS, LocalLauncher


class Fakes:
    """A launcher and a controller that do as a test says."""

    def __init__(self, *, hangs: str = "", fails: bool = False, alone: bool = True) -> None:
        self._hangs, self._fails, self._alone = hangs, fails, alone
        self.patience: list[float] = []
        self.forgot = 0

    async def end_slots(self) -> None:
        if self._fails:
            raise LauncherError("no folder")
        if self._hangs == "slots":
            await asyncio.get_running_loop().create_future()

    def leave(self) -> bool:
        return self._alone

    async def stop_all(self, launcher: str, grace: float, patience: float) -> bool:
        self.patience.append(patience)
        return True

    async def forget_all(self, launcher: str) -> None:
        self.forgot += 1
        if self._hangs == "store":
            await asyncio.get_running_loop().create_future()


async def end(fakes: Fakes, seconds: float) -> None:
    """Let it end within so many seconds."""
    deadline = asyncio.get_running_loop().time() + seconds
    await serve_controller._end_local(cast("Controller", fakes), cast("LocalLauncher", fakes), deadline)


def test_the_parent_waits_for_longer_and_replicas_have_their_whole_grace() -> None:
    assert END_SECONDS + 1.0 < CONTROLLER_STOP_SECONDS
    left = END_SECONDS - serve_controller._SLOTS_SECONDS - serve_controller._STORE_SECONDS
    assert left > STOP_SECONDS + KILL_MARGIN_SECONDS


async def test_slots_that_hang_take_no_time_from_what_comes_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_controller, "_SLOTS_SECONDS", 0.1)
    fakes = Fakes(hangs="slots")
    await end(fakes, 60.0)
    assert 0.0 < fakes.patience[0] <= 60.0 - 0.1 - serve_controller._STORE_SECONDS
    assert fakes.forgot == 1


async def test_a_store_that_hangs_does_not_keep_it_from_ending() -> None:
    fakes = Fakes(hangs="store")
    await end(fakes, 0.1)
    assert fakes.forgot == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_all_that_runs_here_is_ended_and_forgotten(fails: bool) -> None:
    fakes = Fakes(fails=fails)
    await end(fakes, END_SECONDS)
    assert (len(fakes.patience), fakes.forgot) == (1, 1)


async def test_another_controller_of_the_machine_looks_after_what_runs() -> None:
    fakes = Fakes(alone=False)
    await end(fakes, END_SECONDS)
    assert (fakes.patience, fakes.forgot) == ([], 0)
