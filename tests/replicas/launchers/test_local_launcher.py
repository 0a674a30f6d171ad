"""Processes of this machine, and controllers that are killed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protos.launch_step import LaunchStep
from replicas.launchers import launch_folder, local_launcher
from replicas.launchers.gpu_share import GpuShare
from replicas.launchers.held_process import Holder
from replicas.launchers.launch_folder import MOST_SET_ASIDE, LaunchFolder
from replicas.launchers.launcher import LaunchedReplica, LauncherError, ReplicaOrder
from replicas.launchers.local_launcher import KILL_MARGIN_SECONDS, LocalLauncher
from tests.launched import begun, ended, local, order
from tests.loops import until

#: A controller that is killed as soon as it has written its record, or as soon as it has started the process.
CONTROLLER = """
import asyncio, os, pathlib, signal, sys
from tests.launched import local, order
folder, when = pathlib.Path(sys.argv[1]), sys.argv[2]
launcher = local(folder)
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
spawn = os.posix_spawn
def spawn_and_die(*given, **named):
    spawn(*given, **named)
    die()
if when == "record":
    launcher._command_of = die
else:
    os.posix_spawn = spawn_and_die
asyncio.run(launcher.start([order("a")]))
"""


@pytest.fixture
def folder(state_dir: Path) -> Iterator[Path]:
    with ended(state_dir) as made:
        yield made


async def seen(
    launcher: LocalLauncher, wanted: Callable[[dict[str, LaunchedReplica]], object]
) -> dict[str, LaunchedReplica]:
    while not wanted(found := {one.id: one for one in await launcher.observe()}):
        pass
    return found


async def runs(folder: Path, *ids: str) -> list[int]:
    """Wait until these have begun; return the ids of their processes."""
    await until(lambda: all(begun(folder, id_) for id_ in ids))
    return [int(begun(folder, id_)[0].split()[0]) for id_ in ids]


def killed_controller(folder: Path, when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONTROLLER, str(folder), when],
        cwd=Path(__file__).parents[3],
        timeout=60,
        check=False,
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


async def test_a_replica_outlives_the_controller_that_started_it(folder: Path) -> None:
    killed_controller(folder, "spawn")
    (pid,) = await runs(folder, "a")
    launcher = local(folder)
    await launcher.start([order("a")])
    (found,) = await launcher.observe()
    assert (found.id, found.step, found.address) == ("a", LaunchStep.PROCESS, f"unix:{folder}/a.sock")
    assert len(begun(folder, "a")) == 1
    assert os.getsid(pid) == pid
    await launcher.stop(["a"], 30.0)
    await seen(launcher, lambda found: not found)


async def test_a_controller_that_is_killed_before_the_process_begins_loses_nothing(folder: Path) -> None:
    killed_controller(folder, "record")
    launcher = local(folder)
    (found,) = await launcher.observe()
    assert (found.step, found.problem) == (LaunchStep.FAILED, "its start was broken off before its process began")
    await launcher.start([order("a")])
    await runs(folder, "a")
    (found,) = await launcher.observe()
    assert (found.step, found.problem) == (LaunchStep.PROCESS, "")
    assert len(begun(folder, "a")) == 1


async def test_what_a_killed_controller_never_began_can_be_stopped(folder: Path) -> None:
    killed_controller(folder, "record")
    launcher = local(folder)
    await launcher.stop(["a"], 0.0)
    assert await launcher.observe() == []
    await launcher.start([order("a")])
    assert await launcher.observe() == []
    assert begun(folder, "a") == []


async def test_one_that_does_not_end_is_killed_whoever_had_told_it(folder: Path) -> None:
    launcher = local(folder, clock=1000.0)
    await launcher.start([order("a", "deaf")])
    (pid,) = await runs(folder, "a")
    await launcher.stop(["a"], 20.0)
    (found,) = await local(folder, clock=1000.0 + 20.0 + local_launcher.KILL_MARGIN_SECONDS - 0.1).observe()
    assert found.step is LaunchStep.STOPPING
    later = local(folder, clock=1000.0 + 20.0 + local_launcher.KILL_MARGIN_SECONDS)
    await seen(later, lambda found: not found)
    assert await launcher.observe() == []
    # Its status was taken by the process that has started it, so that nothing of it is left.
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_the_shortest_grace_counts(folder: Path) -> None:
    launcher = local(folder, clock=1000.0)
    await launcher.start([order("a", "deaf")])
    await runs(folder, "a")
    await launcher.stop(["a"], 20.0)
    await launcher.stop(["a"], 0.0)
    await launcher.stop(["a"], 600.0)
    await seen(local(folder, clock=1000.0 + local_launcher.KILL_MARGIN_SECONDS), lambda found: not found)


async def test_status_and_last_line_of_one_that_ended_are_known_to_all(folder: Path) -> None:
    launcher = local(folder)
    await launcher.start([order("a", "fail")])
    problem = (await seen(launcher, lambda found: found["a"].problem))["a"].problem
    assert problem == f"ended with status 1: no such checkpoint (log: {folder}/launched/a.log)"
    assert [one.problem for one in await local(folder).observe()] == [problem]


async def test_one_that_is_killed_is_seen_to_have_failed(folder: Path) -> None:
    launcher = local(folder)
    await launcher.start([order("a")])
    (pid,) = await runs(folder, "a")
    os.kill(pid, signal.SIGKILL)
    found = await seen(launcher, lambda found: found["a"].step is LaunchStep.FAILED)
    assert found["a"].problem == "ended with status -9, without a line in its log"
    await launcher.start([order("a")])
    assert len(begun(folder, "a")) == 1


async def test_a_status_that_is_not_there_yet_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = local(folder)
    await launcher.start([order("a")])
    (pid,) = await runs(folder, "a")
    os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with monkeypatch.context() as early:
        early.setattr(os, "waitpid", lambda pid, options: (0, 0))
        assert [one.step for one in await launcher.observe()] == [LaunchStep.PROCESS]
    (found,) = await launcher.observe()
    assert (found.step, found.problem) == (LaunchStep.FAILED, "ended with status -9, without a line in its log")


async def test_children_that_are_left_behind_are_ended(folder: Path) -> None:
    launcher = local(folder)
    await launcher.start([order("a", "parent")])
    (pid,) = await runs(folder, "a")
    os.kill(pid, signal.SIGKILL)
    # It has not failed while anything of it holds its lock.
    await seen(launcher, lambda found: found["a"].step is LaunchStep.FAILED)


async def test_a_program_that_is_not_there_is_a_failed_replica(folder: Path) -> None:
    launcher = local(folder)
    launcher._command_of = lambda order, address: ["/no/such/program"]
    await launcher.start([order("a")])
    found = await seen(launcher, lambda found: found["a"].step is LaunchStep.FAILED)
    assert "/no/such/program: No such file or directory" in found["a"].problem


async def test_gpus_are_given_once_and_given_back(folder: Path) -> None:
    launcher = local(folder, gpus=(4, 5, 7))
    with pytest.raises(LauncherError) as caught:
        await launcher.start([order("a", gpus=2), order("b", gpus=2), order("c")])
    assert str(caught.value) == "b: it needs 2 GPUs, and 1 of 3 are free"
    await runs(folder, "a", "c")
    assert begun(folder, "a")[0].endswith(" 4,5")
    assert begun(folder, "c")[0].endswith(" 7")
    other = local(folder, gpus=(4, 5, 7))
    with pytest.raises(LauncherError, match="b: it needs 2 GPUs, and 0 of 3 are free"):
        await other.start([order("b", gpus=2)])
    await other.stop(["a"], 30.0)
    await seen(other, lambda found: set(found) == {"c"})
    await other.start([order("b", gpus=2)])
    await runs(folder, "b")
    assert begun(folder, "b")[0].endswith(" 4,5")


async def test_gpus_of_a_host_group_are_kept_for_it_and_given_in_order(folder: Path) -> None:
    share = GpuShare("grouped", (4, 6, 5, 7), 2)
    launcher = local(folder, (4, 6, 5, 7, 0), share=share)
    grouped = [msgspec.structs.replace(order(f"g{number}"), pool="grouped") for number in range(4)]
    await launcher.start([grouped[0], grouped[1], grouped[2], order("other")])
    await runs(folder, "g0", "g1", "g2", "other")
    assert [begun(folder, one)[0].split()[-1] for one in ("g0", "g1", "g2", "other")] == ["4", "6", "5", "0"]
    with pytest.raises(LauncherError, match="another: it needs 1 GPUs, and 0 of 1 are free"):
        await launcher.start([order("another")])
    # What has ended leaves its place to the next one.
    await launcher.stop(["g1"], 30.0)
    await seen(launcher, lambda found: "g1" not in found)
    await launcher.start([grouped[3]])
    await runs(folder, "g3")
    assert begun(folder, "g3")[0].split()[-1] == "6"
    command = launcher._command(grouped[2], f"unix:{folder}/g2.sock", [5])
    assert list(command[-6:]) == ["--group", "grouped-1", "--group-gpus", "2", "--gpu", "0"]
    # One that was started before the configuration changed is in no group.
    assert share.options([0]) == []


async def test_without_gpus_none_are_named(folder: Path) -> None:
    await local(folder).start([order("a", gpus=64)])
    await runs(folder, "a")
    assert begun(folder, "a")[0].endswith(" None")


async def test_a_bad_id_keeps_no_other_from_being_started(folder: Path) -> None:
    launcher = local(folder)
    with pytest.raises(LauncherError) as caught:
        await launcher.start([order("../a"), order("b"), order("")])
    assert str(caught.value).count("an id has 1 to 63 of a-z, 0-9 and -") == 2
    assert [one.id for one in await launcher.observe()] == ["b"]


@pytest.mark.parametrize("spoiled", ['{"order": 1}', "", "\0" * 400, "another's"])
async def test_a_record_that_cannot_be_read_is_set_aside_and_made_anew_from_its_process(
    folder: Path, spoiled: str, caplog: pytest.LogCaptureFixture
) -> None:
    launcher = local(folder, gpus=[3, 4])
    await launcher.start([order("a"), order("dead", "fail")])
    (pid,) = await runs(folder, "a")
    before = (await seen(launcher, lambda found: found.get("dead") and found["dead"].problem))["a"]
    record, dead = folder / "launched" / "a.json", folder / "launched" / "dead.json"
    text = record.read_text()
    if spoiled == "another's":
        spoiled = text.replace('"a"', '"b"')
    record.write_text(spoiled)
    dead.write_text(spoiled)
    again = local(folder, gpus=[3, 4])
    # Everything else goes on meanwhile, and its GPU is not given to another one.
    with pytest.raises(LauncherError, match="it needs 2 GPUs, and 1 of 2 are free"):
        await again.start([order("c", gpus=2)])
    assert await again.observe() == [before]
    assert record.with_suffix(".unreadable").read_text() == spoiled
    assert record.read_text() == text
    said = [message for message in caplog.messages if "not a record of a replica" in message]
    assert [str(path) in message for path, message in zip((record, dead), said, strict=True)] == [True, True]
    assert f"from the environment of process {pid}" in said[0]
    assert "nothing of it runs" in said[1]
    await again.stop(["a"], 5.0)
    await seen(again, lambda found: "a" not in found)


async def test_of_records_that_were_set_aside_the_last_are_kept(folder: Path) -> None:
    launched = folder / "launched"
    launcher = local(folder)
    await launcher.start([order("runs")])
    await runs(folder, "runs")
    (launched / "runs.json").write_text("{")
    await launcher.observe()
    for number in range(MOST_SET_ASIDE + 5):
        (launched / f"a-{number:03}.json").write_text("{")
        (launched / f"a-{number:03}.log").write_text("a line")
        await launcher.observe()
    aside = [f"a-{number:03}" for number in range(5, MOST_SET_ASIDE + 5)]
    assert sorted(path.stem for path in launched.glob("*.unreadable")) == aside
    # What they were of is forgotten with them, unless it runs.
    assert sorted(path.stem for path in launched.glob("*.log")) == [*aside, "runs"]
    assert [one.id for one in await launcher.observe()] == ["runs"]
    await launcher.stop(["runs"], 5.0)


async def test_a_process_without_any_record_is_ended_when_it_is_told_by_its_id(folder: Path) -> None:
    now = 100.0
    launcher = local(folder, clock=now)
    await launcher.start([order("a"), order("deaf", "deaf")])
    pids = await runs(folder, "a", "deaf")
    for id_ in ("a", "deaf"):
        (folder / "launched" / f"{id_}.json").unlink()
    assert await launcher.observe() == []
    await launcher.stop(["a", "deaf", "unknown"], 2.0)
    locks = folder / "launched"
    await until(lambda: not Holder(locks / "a.lock").held)
    await launcher.observe()
    assert Holder(locks / "deaf.lock").held
    launcher._clock = lambda: now + 2.0 + KILL_MARGIN_SECONDS
    await launcher.observe()
    await until(lambda: not Holder(locks / "deaf.lock").held)
    await launcher.observe()
    assert not [path for path in locks.glob("*.lock") if path.stem in ("a", "deaf")]
    assert len(pids) == 2


async def test_a_record_is_on_the_disk_before_its_process_begins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, spawn = os.fsync, os.posix_spawn

    def synced(descriptor: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        sync(descriptor)

    def spawned(*given: Any, **named: Any) -> int:
        done.append("process")
        return spawn(*given, **named)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "posix_spawn", spawned)
    await local(folder).start([order("a")])
    assert done == ["a.new", "launched", "process"]


def test_the_last_controller_of_a_folder_knows_it(folder: Path) -> None:
    first, second, third = local(folder), local(folder), local(folder)
    first.join()
    second.join()
    assert not second.leave()
    third.join()
    assert not first.leave()
    assert third.leave()
    first.join()
    assert first.leave()
    assert second.leave(), "who has not joined leaves nobody behind"


async def test_a_folder_that_cannot_be_used_is_named(folder: Path) -> None:
    (folder / "launched").write_text("")
    launcher = local(folder)
    with pytest.raises(LauncherError, match="launched"):
        launcher.join()
    assert launcher.leave()
    for call in (launcher.observe(), launcher.start([order("b")]), launcher.stop(["a"], 0.0)):
        with pytest.raises(LauncherError, match="launched"):
            await call
    (folder / "launched").unlink()


async def test_a_controller_that_stands_still_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_folder, "_LOCK_SECONDS", 0.05)
    with (
        LaunchFolder(folder / "launched").exclusive(),
        pytest.raises(LauncherError, match=f"a launcher is at work in process {os.getpid()}"),
    ):
        await local(folder).observe()


async def test_a_command_that_cannot_be_made_leaves_nothing(folder: Path) -> None:
    launcher = local(folder)

    def command_of(one: ReplicaOrder, address: str) -> list[str]:
        raise OSError("no room")

    launcher._command_of = command_of
    with pytest.raises(LauncherError, match="a: no room"):
        await launcher.start([order("a")])
    assert await launcher.observe() == []


async def test_a_log_does_not_grow_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_folder, "_LOG_LONGEST", 1000)
    monkeypatch.setattr(launch_folder, "_LOG_KEPT", 100)
    launcher = local(folder)
    await launcher.start([order("a")])
    await runs(folder, "a")
    log = folder / "launched" / "a.log"
    with log.open("a") as file:
        file.write("x" * 1000 + "the end\n")
    await launcher.observe()
    assert log.read_text() == "x" * 92 + "the end\n"


async def test_an_id_is_forgotten_in_the_end(folder: Path) -> None:
    launcher = local(folder, clock=1000.0)
    await launcher.start([order("a")])
    await runs(folder, "a")
    await launcher.stop(["a"], 0.0)
    await seen(launcher, lambda found: not found)
    assert (folder / "launched" / "a.log").exists()
    await local(folder, clock=1000.0 + local_launcher.GONE_SECONDS - 1).observe()
    assert (folder / "launched" / "a.json").exists()
    await local(folder, clock=1000.0 + local_launcher.GONE_SECONDS).observe()
    assert [path.name for path in (folder / "launched").iterdir()] == ["lock"]
