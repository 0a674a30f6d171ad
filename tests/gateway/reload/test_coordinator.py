"""A supervisor and its processes over real sockets: all take a configuration, or none does."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import gateway.reload.coordinator
from gateway.config.errors import ConfigError
from gateway.config.settings import Config
from gateway.reload.coordinator import Coordinator
from gateway.reload.messages import Outcome, Role, digest_of
from gateway.reload.participant import CannotPrepare, ReloadLink
from gateway.reload.supervisor_socket import SupervisorError, ask_reload, current_config
from gateway.reload.watched_file import WatchedFile
from tests.gateway.reload.configs import base, far
from tests.loops import until

PRICED = far(price={"input": 1.0, "output": 1.0})
DEARER = far(price={"input": 2.0, "output": 2.0})


class Process:
    """A participant as a test wants it; `prepares` is done while it prepares."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.prepared: Config | None = None
        self.problem = ""
        self.hold: asyncio.Event | None = None
        self.preparing = asyncio.Event()
        self.abandoned = 0
        #: Set while it has no request of an earlier configuration.
        self.idle = asyncio.Event()
        self.idle.set()
        self.told: list[Outcome] = []

    async def prepare(self, config: Config) -> None:
        self.preparing.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.problem:
            raise CannotPrepare(self.problem)
        self.prepared = config

    def take(self) -> None:
        assert self.prepared is not None
        self.config, self.prepared = self.prepared, None

    async def abandon(self) -> None:
        self.abandoned += 1
        self.prepared = None

    async def settle(self) -> None:
        await self.idle.wait()


class Own:
    """What the supervisor runs itself: which configurations it runs things for."""

    def __init__(self) -> None:
        self.runs = [base()]
        self.prepared: Config | None = None
        self.problem = ""

    async def prepare(self, config: Config) -> None:
        if self.problem:
            raise CannotPrepare(self.problem)
        self.prepared = config

    def take(self) -> None:
        assert self.prepared is not None
        self.runs.append(self.prepared)
        self.prepared = None

    async def abandon(self) -> None:
        self.prepared = None

    def settle(self) -> None:
        self.runs = self.runs[-1:]


class Site:
    """A coordinator, its file and its processes."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "penstock.yaml"
        self.file.write_text("base")
        self.socket = folder / "s.sock"
        self.found: Config | str = base()
        self.own = Own()
        self.coordinator = Coordinator(base(), WatchedFile(self.file), self.read, self.own, clock=lambda: 1.0)
        self.processes: list[Process] = []
        self._links: list[asyncio.Task[None]] = []

    def read(self, file: Path) -> Config:
        if isinstance(self.found, str):
            raise ConfigError(str(file), "models[0].price.input", self.found)
        return self.found

    async def join(self, config: Config | None = None, role: Role = "worker", problem: str = "") -> Process:
        process = Process(config or self.coordinator.config)
        process.problem = problem
        link = ReloadLink(str(self.socket), role, process.config, process, process.told.append)
        self._links.append(asyncio.create_task(link.run()))
        self.processes.append(process)
        await until(lambda: process.told)
        return process

    async def kill(self, number: int) -> None:
        """The process's end of the connection goes."""
        self._links[number].cancel()
        await asyncio.gather(self._links[number], return_exceptions=True)

    async def aclose(self) -> None:
        for number in range(len(self._links)):
            await self.kill(number)


@contextlib.asynccontextmanager
async def site_of(folder: Path, processes: int = 2) -> AsyncIterator[Site]:
    site = Site(folder)
    serving = asyncio.create_task(site.coordinator.serve(await site.coordinator.listen(site.socket)))
    try:
        for _ in range(processes):
            await site.join()
        yield site
    finally:
        await site.aclose()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_all_take_it(state_dir: Path) -> None:
    async with site_of(state_dir) as site:
        site.found = PRICED
        outcome = await site.coordinator.reload("signal")
        assert outcome.result == "taken"
        assert outcome.digest == digest_of(PRICED)
        assert [one.problem for one in outcome.processes] == ["", ""]
        assert all(process.config == PRICED for process in site.processes)
        await until(lambda: all(process.told[-1] == outcome for process in site.processes))


async def test_none_takes_what_one_cannot_prepare(state_dir: Path) -> None:
    async with site_of(state_dir, 3) as site:
        site.processes[1].problem = "models[0].tokenizer: gone"
        site.found = PRICED
        outcome = await site.coordinator.reload("file")
        assert outcome.result == "refused"
        assert outcome.problem.startswith(f"{site.file}: worker ")
        assert outcome.problem.endswith(": models[0].tokenizer: gone")
        assert outcome.digest == digest_of(base())
        assert all(process.config == base() for process in site.processes)
        await until(lambda: [process.abandoned for process in site.processes] == [1, 0, 1])
        assert all(process.prepared is None for process in site.processes)
        site.processes[1].problem = ""
        assert (await site.coordinator.reload("file")).result == "taken"


async def test_what_cannot_be_read_is_refused_by_field(state_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site_of(state_dir) as site:
        site.found = "expected a number, got 'x'"
        outcome = await site.coordinator.reload("signal")
        assert outcome.result == "refused"
        assert outcome.problem == f"{site.file}: models[0].price.input: expected a number, got 'x'"
        assert f"configuration refused, after SIGHUP: {outcome.problem}; {digest_of(base())} goes on" in caplog.text
        assert not any(process.preparing.is_set() for process in site.processes)


async def test_what_needs_a_restart_is_refused_by_path_and_values(state_dir: Path) -> None:
    async with site_of(state_dir) as site:
        site.found = base(listen={"port": 9090})
        outcome = await site.coordinator.reload("signal")
        assert outcome.problem == f"{site.file}: it needs a restart: listen.port: 8080 -> 9090"
        assert outcome.restart == ("listen.port: 8080 -> 9090",)


@pytest.mark.parametrize(("role", "expected"), [("worker", signal.SIGTERM), ("controller", signal.SIGKILL)])
async def test_a_process_that_cannot_take_it_begins_anew(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, role: Role, expected: signal.Signals
) -> None:
    raised: list[signal.Signals] = []
    monkeypatch.setattr("gateway.reload.participant.signal.raise_signal", raised.append)
    monkeypatch.setattr(gateway.reload.coordinator, "TAKE_SECONDS", 0.2)
    async with site_of(state_dir, 0) as site:
        for _ in range(2):
            await site.join(role=role)

        def fails() -> None:
            raise RuntimeError("a defect")

        site.processes[0].take = fails  # type: ignore[method-assign]
        site.found = PRICED
        assert (await site.coordinator.reload("signal")).result == "taken"
        await until(lambda: raised == [expected] and site.processes[1].config == PRICED)


@pytest.mark.parametrize(("role", "expected"), [("worker", signal.SIGTERM), ("controller", signal.SIGKILL)])
async def test_one_that_begins_and_cannot_take_it_is_ended(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, role: Role, expected: signal.Signals
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("gateway.reload.coordinator.os.kill", lambda *told: sent.append(told))
    async with site_of(state_dir) as site:
        site.found = PRICED
        await site.coordinator.reload("signal")
        await site.join(base(), role, problem="no")
        await until(lambda: sent == [(os.getpid(), expected)])


async def test_an_unchanged_file_changes_nothing(state_dir: Path) -> None:
    async with site_of(state_dir) as site:
        assert (await site.coordinator.reload("signal")).result == "unchanged"
        assert not any(process.preparing.is_set() for process in site.processes)


async def test_a_process_that_ends_while_it_prepares_keeps_nobody_from_it(state_dir: Path) -> None:
    async with site_of(state_dir) as site:
        one, two = site.processes
        one.hold = asyncio.Event()
        site.found = PRICED
        reloading = asyncio.create_task(site.coordinator.reload("signal"))
        await one.preparing.wait()
        await site.kill(0)
        outcome = await reloading
        assert outcome.result == "taken"
        assert len(outcome.processes) == 1
        assert (one.config, two.config) == (base(), PRICED)
        assert one.prepared is None


async def test_a_process_that_begins_meanwhile_gets_what_is_in_use_in_the_end(state_dir: Path) -> None:
    async with site_of(state_dir) as site:
        site.processes[0].hold = asyncio.Event()
        for found, expected, problem in ((PRICED, PRICED, ""), (DEARER, PRICED, "no")):
            site.found = found
            site.processes[0].preparing.clear()
            site.processes[0].problem = problem
            reloading = asyncio.create_task(site.coordinator.reload("signal"))
            await site.processes[0].preparing.wait()
            # With what was in use when it was started.
            late = await site.join(site.coordinator.config)
            site.processes[0].hold.set()
            await reloading
            await until(lambda late=late, expected=expected: late.config == expected)  # type: ignore[misc]
            site.processes[0].hold.clear()


async def test_one_that_is_slow_is_given_up_with_all_others(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.reload.coordinator, "PREPARE_SECONDS", 0.05)
    async with site_of(state_dir) as site:
        site.processes[0].hold = asyncio.Event()
        site.found = PRICED
        outcome = await site.coordinator.reload("signal")
        assert outcome.result == "refused"
        assert "it was not ready within 0 s" in outcome.problem
        await until(lambda: site.processes[1].prepared is None)
        site.processes[0].hold = None
        monkeypatch.undo()
        assert (await site.coordinator.reload("signal")).result == "taken"


async def test_two_at_once_come_one_after_the_other(state_dir: Path) -> None:
    async with site_of(state_dir) as site:
        site.found = PRICED
        outcomes = await asyncio.gather(*(site.coordinator.reload("signal") for _ in range(2)))
        assert [outcome.result for outcome in outcomes] == ["taken", "unchanged"]


async def test_a_changed_file_is_read_by_itself(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.reload.coordinator, "LOOK_SECONDS", 0.01)
    async with site_of(state_dir) as site:
        site.found = PRICED
        site.file.write_text("priced")
        # The outcome comes after the processes' answers, which come after they have taken it.
        await until(lambda: site.coordinator.outcome.trigger == "file")
        assert site.coordinator.outcome.result == "taken"
        assert all(process.config == PRICED for process in site.processes)


async def test_others_ask_for_the_configuration_and_for_a_reload(state_dir: Path) -> None:
    async with site_of(state_dir) as site:
        assert await current_config(site.socket) == base()
        site.found = PRICED
        outcome = await ask_reload(site.socket, "admin")
        assert (outcome.result, outcome.trigger) == ("taken", "admin")
        assert await current_config(site.socket) == PRICED
    with pytest.raises(SupervisorError, match="does not answer"):
        await current_config(site.socket)


async def test_what_is_no_message_ends_its_connection_alone(state_dir: Path) -> None:
    async with site_of(state_dir) as site:
        for rubbish in (b"", b"\xff" * 8, b"\0\0\0\3abc", b"\0\0\0"):
            reader, writer = await asyncio.open_unix_connection(str(site.socket))
            writer.write(rubbish)
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
        site.found = PRICED
        assert (await site.coordinator.reload("signal")).result == "taken"


async def test_what_the_supervisor_runs_itself_comes_first_and_goes_last(state_dir: Path) -> None:
    async with site_of(state_dir) as site:
        site.processes[0].idle.clear()
        site.found = PRICED
        assert (await site.coordinator.reload("signal")).result == "taken"
        await until(lambda: site.processes[1].told[-1].result == "taken")
        site.found = DEARER
        assert (await site.coordinator.reload("signal")).result == "taken"
        assert site.own.runs == [base(), PRICED, DEARER]
        site.processes[0].idle.set()
        await until(lambda: site.own.runs == [DEARER])


async def test_a_killed_process_has_no_requests(state_dir: Path) -> None:
    async with site_of(state_dir) as site:
        site.processes[0].idle.clear()
        site.found = PRICED
        await site.coordinator.reload("signal")
        assert site.own.runs == [base(), PRICED]
        await site.kill(0)
        await until(lambda: site.own.runs == [PRICED])


async def test_one_that_goes_while_it_is_brought_up_to_date_has_no_requests(state_dir: Path) -> None:
    async with site_of(state_dir) as site:
        site.processes[0].idle.clear()
        site.found = PRICED
        await site.coordinator.reload("signal")
        late = Process(base())
        late.hold = asyncio.Event()
        link = ReloadLink(str(site.socket), "worker", base(), late, late.told.append)
        following = asyncio.create_task(link.run())
        await late.preparing.wait()
        site.processes[0].idle.set()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await until(lambda: site.own.runs == [PRICED])


@pytest.mark.parametrize("where", ["supervisor", "worker"])
async def test_what_the_supervisor_prepared_is_dropped_with_the_rest(state_dir: Path, where: str) -> None:
    async with site_of(state_dir) as site:
        if where == "supervisor":
            site.own.problem = "replica pool near/pool did not get ready"
        else:
            site.processes[0].problem = "no"
        site.found = PRICED
        outcome = await site.coordinator.reload("signal")
        assert outcome.result == "refused"
        assert site.own.runs == [base()]
        assert site.own.prepared is None
        assert all(process.config == base() for process in site.processes)
