"""What every launcher must do: processes of this machine, an operator's commands, and pods of Kubernetes."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protos.launch_step import LaunchStep
from replicas.launchers.launcher import LaunchedReplica, Launcher
from tests.launched import command, ended, local, order
from tests.played_workloads import ClosingLauncher, cluster_beside

Make = Callable[[], Launcher]


@pytest.fixture(params=["local", "command", "kubernetes"])
def make(request: pytest.FixtureRequest, state_dir: Path) -> Iterator[Make]:
    """Makes launchers of the same replicas, as each controller has its own."""
    if request.param == "kubernetes":
        with cluster_beside(state_dir) as (cluster, played):
            yield lambda: ClosingLauncher(cluster, played)
        return
    with ended(state_dir):
        yield lambda: local(state_dir) if request.param == "local" else command(state_dir / "cloud")


async def seen(launcher: Launcher, wanted: Callable[[dict[str, LaunchedReplica]], bool]) -> dict[str, LaunchedReplica]:
    """Observe until that is seen."""
    while not wanted(found := {one.id: one for one in await launcher.observe()}):
        pass
    return found


async def test_what_was_started_is_seen_until_it_was_stopped(make: Make) -> None:
    launcher = make()
    assert await launcher.observe() == []
    await launcher.start([order("a"), order("b", spot=True)])
    found = {one.id: one for one in await launcher.observe()}
    assert set(found) == {"a", "b"}
    assert {(one.model, one.pool, one.step, one.problem) for one in found.values()} == {
        ("m", "p", LaunchStep.PROCESS, "")
    }
    assert (found["a"].spot, found["b"].spot) == (False, True)
    assert min(one.since for one in found.values()) >= 1e9
    await launcher.stop(["a"], 30.0)
    await seen(launcher, lambda found: set(found) == {"b"})
    await launcher.stop(["b", "unknown"], 30.0)
    await seen(launcher, lambda found: not found)


async def test_an_id_is_started_once(make: Make) -> None:
    one, other = make(), make()
    await asyncio.gather(*(launcher.start([order("a"), order("b")]) for launcher in (one, other, one)))
    assert sorted(found.id for found in await other.observe()) == ["a", "b"]
    await one.stop(["a"], 30.0)
    await seen(one, lambda found: set(found) == {"b"})
    # A controller that was held up asks once more for what another one has stopped.
    await other.start([order("a")])
    assert [found.id for found in await other.observe()] == ["b"]
    await other.stop(["b"], 30.0)
    await seen(other, lambda found: not found)


async def test_one_that_has_failed_is_shown_until_it_is_stopped(make: Make) -> None:
    launcher = make()
    await launcher.start([order("a", "fail")])
    found = await seen(launcher, lambda found: found["a"].step is LaunchStep.FAILED)
    assert "no such checkpoint" in found["a"].problem
    await launcher.start([order("a", "fail")])
    assert [one.step for one in await make().observe()] == [LaunchStep.FAILED]
    await launcher.stop(["a"], 0.0)
    assert await launcher.observe() == []


async def test_nothing_to_do_is_no_error(make: Make) -> None:
    launcher = make()
    await launcher.start([])
    await launcher.stop([], 0.0)
    await launcher.stop(["unknown", "../../etc", ""], 0.0)
    assert await launcher.observe() == []
