"""A local launcher that keeps processes in wait: what it takes, what it starts, and what it survives."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from protos.launch_step import LaunchStep
from replicas.fast_start.standby import give_order
from replicas.launchers import standby_slots
from replicas.launchers.held_process import Holder
from replicas.launchers.launcher import LauncherError, ReplicaOrder
from replicas.launchers.local_launcher import LocalLauncher
from replicas.launchers.standby_slots import AT_ONCE, SlotKind, StandbySlots
from tests.launched import order
from tests.loops import SOON_SECONDS

ROOT = Path(__file__).parents[3]
#: A replica, or a process that waits to become one: it notes how it began, and with which options.
REPLICA = """
import os, signal, sys
from pathlib import Path
from replicas.fast_start.standby import wait_for_order
folder, options, how = Path(sys.argv[1]), sys.argv[2:], "started"
def take(given):
    if "refused" in given:
        raise ValueError("refused is no model")
    return given
if "--standby" in options:
    options, how = wait_for_order(Path(options[options.index("--standby") + 1]), take), "taken"
with (folder / "begun").open("a") as file:
    file.write(" ".join([how, *options]) + chr(10))
with (folder / "gpus").open("a") as file:
    file.write(f"{how} {options[-1]} {os.environ.get('CUDA_VISIBLE_DEVICES')}" + chr(10))
signal.pause()
"""


class Site:
    """A folder with a launcher whose slots and replicas are small processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launched = folder / "launched"
        self.environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        self.base = [sys.executable, "-c", REPLICA, str(folder), "--engine", "simulated"]

    def launcher(self, count: int = 2, gpus: Sequence[int] | None = None, kinds: Sequence[int] = (0,)) -> LocalLauncher:
        """`kinds` are the numbers of GPUs of slots."""
        made = [SlotKind(self.base, number) for number in kinds]
        slots = StandbySlots(self.launched / "standby", made, count, self.environment, self.socket_of)
        return LocalLauncher(
            self.launched,
            self.command_of,
            lambda id_: f"unix:{self.folder}/{id_}.sock",
            self.environment,
            gpus,
            standby=slots,
        )

    def command_of(self, one: ReplicaOrder, address: str) -> list[str]:
        return [*self.base, "--model", one.version or "m", "--launch-id", one.id]

    def socket_of(self, name: str) -> Path:
        return self.folder / f"{name}.sock"

    @property
    def sockets(self) -> list[Path]:
        """Of slots that can take an order."""
        return sorted(self.folder.glob("*.sock"))

    @property
    def begun(self) -> list[str]:
        path = self.folder / "begun"
        return sorted(path.read_text().splitlines()) if path.exists() else []

    @property
    def given(self) -> list[str]:
        """How each replica began, its id, and its GPUs."""
        path = self.folder / "gpus"
        return sorted(path.read_text().splitlines()) if path.exists() else []

    def slots(self) -> list[Holder]:
        return [Holder(path) for path in sorted((self.launched / "standby").glob("*.lock"))]


@pytest.fixture
def site(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    # What waits is well, however long a busy machine lets it wait for its turn.
    monkeypatch.setattr(standby_slots, "_ORDER_SECONDS", SOON_SECONDS)
    monkeypatch.setattr(standby_slots, "_FREED_SECONDS", SOON_SECONDS)
    made = Site(state_dir)
    try:
        yield made
    finally:
        for lock in [*made.launched.glob("*.lock"), *(made.launched / "standby").glob("*.lock")]:
            holder = Holder(lock)
            if holder.held and holder.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(holder.pid, signal.SIGKILL)


def wait(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(SOON_SECONDS / 0.01)):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("it does not come true")


async def filled(site: Site, count: int = 2) -> LocalLauncher:
    """A launcher whose slots wait."""
    launcher = site.launcher(count)
    await launcher.observe()
    wait(lambda: len(site.sockets) == count)
    return launcher


async def steps(launcher: LocalLauncher) -> dict[str, LaunchStep]:
    return {one.id: one.step for one in await launcher.observe()}


async def test_orders_take_what_waits_and_start_the_rest(site: Site) -> None:
    launcher = await filled(site)
    await launcher.start([order("a"), order("b"), order("c")])
    wait(lambda: len(site.begun) == 3)
    assert [line.split()[0] for line in site.begun] == ["started", "taken", "taken"]
    assert {line.split()[-1] for line in site.begun} == {"a", "b", "c"}
    assert all("--model m" in line for line in site.begun)
    assert await steps(launcher) == dict.fromkeys("abc", LaunchStep.PROCESS)
    wait(lambda: len(site.sockets) == 2)  # filled up again
    assert not list(site.launched.glob("*.slot"))
    await launcher.stop(["a", "b", "c"], 5.0)
    wait(lambda: not any(Holder(lock).held for lock in site.launched.glob("*.lock")))
    assert await steps(launcher) == {}


async def test_slots_begin_few_at_a_time(site: Site) -> None:
    launcher = site.launcher(2 * AT_ONCE)
    await launcher.observe()
    assert len(list((site.launched / "standby").glob("*.lock"))) == AT_ONCE
    wait(lambda: len(site.sockets) == AT_ONCE)
    await launcher.observe()
    wait(lambda: len(site.sockets) == 2 * AT_ONCE)


async def test_a_launcher_that_ends_its_slots_keeps_none_and_no_replica_is_touched(site: Site) -> None:
    launcher = await filled(site)
    await launcher.start([order("a")])
    await launcher.end_slots()
    wait(lambda: not any(Holder(lock).held for lock in (site.launched / "standby").glob("*.lock")))
    assert await steps(launcher) == {"a": LaunchStep.PROCESS}
    assert not any(Holder(lock).held for lock in (site.launched / "standby").glob("*.lock")), "and no others begin"
    await launcher.end_slots()


async def test_an_order_is_not_started_twice(site: Site) -> None:
    launcher = await filled(site, 1)
    await launcher.start([order("a")])
    await launcher.start([order("a")])
    await site.launcher(1).start([order("a")])
    wait(lambda: bool(site.begun))
    assert len(site.begun) == 1


async def test_another_controller_takes_and_ends_what_the_first_has_kept(site: Site) -> None:
    await filled(site, 1)
    other = site.launcher(1)
    await other.start([order("a")])
    wait(lambda: site.begun == ["taken --engine simulated --model m --launch-id a"])
    await other.stop(["a"], 5.0)
    wait(lambda: not Holder(site.launched / "a.lock").held)
    assert await steps(other) == {}


async def test_what_waits_and_refuses_waits_on_and_the_replica_is_started(site: Site) -> None:
    launcher = await filled(site, 1)
    await launcher.start([order("a", "refused")])
    wait(lambda: bool(site.begun))
    assert site.begun == ["started --engine simulated --model refused --launch-id a"]
    assert await steps(launcher) == {"a": LaunchStep.PROCESS}
    await launcher.start([order("b")])
    wait(lambda: len(site.begun) == 2)
    assert site.begun[1].startswith("taken")


async def test_one_that_does_not_answer_is_ended_and_the_replica_started(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby_slots, "_ORDER_SECONDS", 0.1)
    launcher = await filled(site, 1)
    (slot,) = site.slots()
    os.kill(slot.pid, signal.SIGSTOP)
    await launcher.start([order("a")])
    wait(lambda: [line.split()[0] for line in site.begun] == ["started"])
    assert await steps(launcher) == {"a": LaunchStep.PROCESS}
    wait(lambda: len(site.sockets) == 1 and site.slots()[-1].pid != slot.pid)


async def test_one_that_has_died_is_replaced(site: Site) -> None:
    launcher = await filled(site, 1)
    (slot,) = site.slots()
    slot.kill()
    wait(lambda: not site.slots()[0].held)
    await launcher.observe()
    wait(lambda: len(site.sockets) == 1)
    (new,) = site.slots()
    assert new.pid != slot.pid


@pytest.mark.parametrize("given", [False, True])
async def test_a_launcher_that_is_killed_before_or_after_it_gives_the_order(
    site: Site, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = await filled(site, 1)

    def killed(path: Path, options: list[str], timeout_seconds: float) -> None:
        if given:
            give_order(path, options, timeout_seconds)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(standby_slots, "give_order", killed)
        # What is left of a process that is killed is what it has written.
        patch.setattr("replicas.launchers.launch_folder.LaunchFolder.remove", lambda self, record: None)
        with pytest.raises(KeyboardInterrupt):
            await launcher.start([order("a")])
    assert (site.launched / "a.slot").exists()
    other = site.launcher(0)
    assert await steps(other) == {"a": LaunchStep.PROCESS}
    wait(lambda: site.begun == ["taken --engine simulated --model m --launch-id a"])
    assert not (site.launched / "a.slot").exists()


async def test_slots_of_another_version_are_let_alone(site: Site) -> None:
    await filled(site, 1)
    site.environment = site.environment | {"LATER": "1"}
    launcher = site.launcher(1)
    await launcher.start([order("a")])
    wait(lambda: bool(site.begun))
    assert site.begun[0].startswith("started")


async def test_with_gpus_what_waits_has_its_own_and_replicas_take_them_over(site: Site) -> None:
    launcher = site.launcher(2, gpus=[0, 1, 2], kinds=[1])
    await launcher.observe()
    wait(lambda: len(site.sockets) == 2)
    await launcher.start([order("a"), order("b"), order("c")])
    wait(lambda: len(site.given) == 3)
    assert [line.split()[0] for line in site.given] == ["started", "taken", "taken"]
    assert {line.split()[2] for line in site.given} == {"0", "1", "2"}
    with pytest.raises(LauncherError, match="it needs 1 GPUs, and 0 of 3 are free"):
        await launcher.start([order("d")])
    await launcher.observe()
    assert not site.slots(), "no GPU is left to wait on"
    await launcher.stop(["a"], 5.0)
    wait(lambda: not Holder(site.launched / "a.lock").held)
    await launcher.observe()
    wait(lambda: len(site.sockets) == 1)
    await launcher.start([order("e")])
    wait(lambda: len(site.given) == 4)
    (of_a,) = [line.split()[2] for line in site.given if line.split()[1] == "a"]
    assert f"taken e {of_a}" in site.given


async def test_what_waits_on_gpus_that_a_larger_replica_needs_is_ended(site: Site) -> None:
    launcher = site.launcher(2, gpus=[4, 5, 6], kinds=[1])
    await launcher.observe()
    wait(lambda: len(site.sockets) == 2)
    before = {slot.pid for slot in site.slots()}
    await launcher.start([order("a", gpus=2)])
    wait(lambda: bool(site.given))
    # The one that nothing waits on comes first.
    assert site.given == ["started a 6,4"]
    living = [slot.pid for slot in site.slots() if slot.held]
    assert len(living) == 1 and living[0] in before
    await launcher.start([order("b")])
    wait(lambda: len(site.given) == 2)
    assert "taken b 5" in site.given


async def test_kinds_share_the_gpus_that_no_replica_has(site: Site) -> None:
    launcher = site.launcher(2, gpus=[0, 1, 2, 3], kinds=[2, 1])
    await launcher.observe()
    wait(lambda: len(site.sockets) == 2)
    await launcher.observe()
    assert len(site.slots()) == 2, "two of the first kind have all"
    await launcher.start([order("a", gpus=2), order("b")])
    wait(lambda: len(site.given) == 2)
    assert site.given[0].startswith("started b ")
    assert site.given[1].startswith("taken a ")
    used = [index for line in site.given for index in line.split()[2].split(",")]
    assert len(used) == len(set(used)) == 3


async def test_one_that_refuses_gives_its_gpus_up(site: Site) -> None:
    launcher = site.launcher(1, gpus=[7], kinds=[1])
    await launcher.observe()
    wait(lambda: len(site.sockets) == 1)
    (slot,) = site.slots()
    await launcher.start([order("a", "refused")])
    wait(lambda: bool(site.given))
    assert site.given == ["started a 7"]
    assert Holder(site.launched / "a.lock").pid != slot.pid
    wait(lambda: not any(one.held for one in site.slots()))


async def test_what_waits_on_gpus_that_a_replica_was_given_before_its_launcher_was_killed_is_ended(site: Site) -> None:
    launcher = site.launcher(1, gpus=[7], kinds=[1])
    await launcher.observe()
    wait(lambda: len(site.sockets) == 1)
    (slot,) = site.slots()
    other = site.launcher(0, gpus=[7], kinds=[])
    await other.start([order("a")])
    wait(lambda: bool(site.given))
    await launcher.observe()
    wait(lambda: not any(one.held for one in site.slots()))
    assert slot.pid != Holder(site.launched / "a.lock").pid
