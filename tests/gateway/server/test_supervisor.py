"""What `penstock serve` keeps running: in order, restarted when it dies, ended when it ends."""

import os
import socket
import threading
from pathlib import Path
from typing import cast

import pytest
import redis
from msgspec.structs import replace

from gateway.config.errors import convert
from gateway.config.secret_variables import LateSecrets
from gateway.config.settings import Config
from gateway.server import supervisor
from gateway.server.child_process import FIRST_RESTART_SECONDS, HEALTHY_SECONDS, LAST_RESTART_SECONDS
from gateway.server.local_pools import LocalPools
from gateway.server.ports import StartError
from gateway.server.supervisor import (
    StoreProcess,
    _running_in_thread,
    admin_api,
    check_ports,
    controller,
    embedded_store,
    local_replicas,
    make_state_folder,
)
from gateway.store.embedded import EmbeddedStore, EmbeddedStoreError
from tests.asgi import config_of
from tests.ports import free_port

REMOTE = ["unix:/nowhere"]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(supervisor, "time", clock)
    return clock


class DeadStore:
    """A store that starts, and dies when the test says so."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.starts = 0
        self.fails = False

    def start(self) -> None:
        self.starts += 1
        if self.fails:
            raise EmbeddedStoreError("the lock is held")
        self.pid = 7


def watched(store: DeadStore) -> StoreProcess:
    return StoreProcess(cast("EmbeddedStore", store))


def test_a_store_that_runs_is_left_alone(clock: Clock) -> None:
    store = DeadStore()
    store.pid = 7
    watched(store).watch()
    assert store.starts == 0


@pytest.mark.parametrize("fails", [False, True])
def test_a_store_that_dies_again_and_again_is_restarted_ever_more_slowly(clock: Clock, fails: bool) -> None:
    store, delay = DeadStore(), FIRST_RESTART_SECONDS
    store.fails = fails
    process = watched(store)
    for starts in range(1, 10):
        process.watch()
        assert store.starts == starts, "at once, when its delay is over"
        store.pid = None
        clock.now += delay * 0.99
        process.watch()
        assert store.starts == starts
        clock.now += delay * 0.01 + 1e-6
        delay = min(delay * 2, LAST_RESTART_SECONDS)
    assert delay == LAST_RESTART_SECONDS


def test_a_store_that_has_recovered_is_restarted_fast_again(clock: Clock) -> None:
    store = DeadStore()
    process = watched(store)
    for _ in range(8):
        process.watch()
        store.pid = None
        clock.now += LAST_RESTART_SECONDS
    process.watch()
    clock.now += HEALTHY_SECONDS + 1
    store.pid = None
    process.watch()
    starts = store.starts
    store.pid = None
    clock.now += FIRST_RESTART_SECONDS + 1e-6
    process.watch()
    assert store.starts == starts + 1


def test_a_store_that_cannot_start_is_named_in_the_log(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    store = DeadStore()
    store.fails = True
    watched(store).watch()
    assert "the lock is held" in caplog.text


class Kept:
    """What is started, looked after and stopped, with the threads that did it."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.threads: set[int] = set()
        self.looked = threading.Event()

    def note(self, what: str) -> None:
        self.happened.append(what)
        self.threads.add(threading.get_ident())

    def start(self, stopping: threading.Event) -> None:
        assert not stopping.is_set()
        self.note("start")

    def watch(self) -> None:
        self.note("watch")
        if self.happened.count("watch") == 1:
            raise RuntimeError("a defect of the look")
        self.looked.set()

    def stop(self) -> None:
        self.note("stop")


def test_it_is_looked_after_until_the_end_in_a_thread_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    with _running_in_thread("thing", kept.start, kept.watch, kept.stop):
        assert kept.happened[0] == "start"
        assert kept.looked.wait(10), "a look that fails is made again"
    assert "cannot look after the thing" in caplog.text
    assert kept.happened == ["start", *["watch"] * kept.happened.count("watch"), "stop"]
    assert len(kept.threads) == 1, "the kernel ends a child with the thread that started it"
    assert threading.get_ident() not in kept.threads


def test_a_start_that_fails_is_raised_and_what_has_begun_is_stopped() -> None:
    kept = Kept()

    def start(stopping: threading.Event) -> None:
        kept.note("start")
        raise StartError("no model there")

    with pytest.raises(StartError, match="no model there"), _running_in_thread("thing", start, kept.watch, kept.stop):
        pytest.fail("it has not started")
    assert (kept.happened[0], kept.happened[-1]) == ("start", "stop")


def test_an_error_of_what_runs_meanwhile_stops_it() -> None:
    kept = Kept()
    with pytest.raises(ValueError, match="elsewhere"), _running_in_thread("thing", kept.start, lambda: None, kept.stop):
        raise ValueError("elsewhere")
    assert kept.happened == ["start", "stop"]


def test_the_embedded_store_runs_between_its_start_and_its_stop(state_dir: Path) -> None:
    config = with_state(config_of("embedded", REMOTE), state_dir)
    url = EmbeddedStore(state_dir).url
    with embedded_store(config, LateSecrets()), redis.Redis.from_url(url) as client:
        assert client.ping()
    with redis.Redis.from_url(url) as client, pytest.raises(redis.ConnectionError):
        client.ping()


def with_state(config: Config, folder: Path) -> Config:
    return replace(config, state=str(folder))


def test_what_is_not_configured_starts_nothing(state_dir: Path) -> None:
    config = with_state(config_of("redis://127.0.0.1:1", REMOTE), state_dir)
    before = set(threading.enumerate())
    with embedded_store(config, LateSecrets()):
        assert set(threading.enumerate()) <= before
    assert list(state_dir.iterdir()) == []
    disabled = Path("/nowhere/penstock.yaml")
    with admin_api(without_admin(config), disabled, LateSecrets()):
        assert set(threading.enumerate()) <= before
    with controller(config, disabled, LateSecrets()):
        assert set(threading.enumerate()) <= before


def test_a_controller_that_shall_run_elsewhere_is_not_started(state_dir: Path) -> None:
    pool = {"name": "small", "engine": "simulated", "replicas": "registered", "launcher": "local"}
    model = {
        "name": "m",
        "tokenizer": "mistral-tekken",
        "context": 4096,
        "pools": [pool | {"scaling": {"min": 0, "max": 1}}],
    }
    config = convert({"models": [model], "controller": {"enabled": False}, "state": str(state_dir)}, Config, "test")
    assert config.scales
    before = set(threading.enumerate())
    with controller(config, Path("/nowhere/penstock.yaml"), LateSecrets()):
        assert set(threading.enumerate()) <= before


def test_the_state_is_private_whichever_store_there_is(state_dir: Path) -> None:
    config = with_state(config_of("redis://127.0.0.1:1", REMOTE), state_dir / "new")
    make_state_folder(config)
    make_state_folder(config)
    assert (state_dir / "new").stat().st_mode & 0o077 == 0
    file = state_dir / "file"
    file.touch()
    # Whoever puts something into it says that it cannot.
    make_state_folder(with_state(config, file))


def without_admin(config: Config) -> Config:
    return replace(config, admin=replace(config.admin, enabled=False))


def test_remote_replicas_are_nobodys_to_start() -> None:
    with local_replicas(LocalPools(config_of("redis://127.0.0.1:1", REMOTE), LateSecrets())):
        pass


def test_a_taken_port_is_named_by_its_setting() -> None:
    with socket.socket() as taken, socket.socket() as also:
        for held in (taken, also):
            held.bind(("127.0.0.1", 0))
            held.listen()
        port, admin_port = taken.getsockname()[1], also.getsockname()[1]
        config = config_of("redis://127.0.0.1:1", REMOTE, host="127.0.0.1", port=port)
        with pytest.raises(StartError, match=rf"127\.0\.0\.1:{port}.*listen\.port"):
            check_ports(config)
        free = config_of("redis://127.0.0.1:1", REMOTE, host="127.0.0.1", port=free_port())
        free = replace(free, admin=replace(free.admin, host="127.0.0.1", port=admin_port))
        with pytest.raises(StartError, match=rf"127\.0\.0\.1:{admin_port}.*admin\.port"):
            check_ports(free)
        check_ports(without_admin(free))


def test_a_host_that_is_not_this_machines_is_named_by_its_setting() -> None:
    elsewhere = config_of("redis://127.0.0.1:1", REMOTE, host="192.0.2.1", port=free_port())
    with pytest.raises(StartError, match=r"192\.0\.2\.1:\d+: .*listen\.host"):
        check_ports(elsewhere)
    unknown = config_of("redis://127.0.0.1:1", REMOTE, host="nobody.invalid", port=free_port())
    with pytest.raises(StartError, match=r"nobody\.invalid cannot be resolved: .*listen\.host"):
        check_ports(unknown)


def test_a_name_and_ipv6_can_be_listened_on() -> None:
    for host in ("localhost", "::1", "::"):
        config = config_of("redis://127.0.0.1:1", REMOTE, host=host, port=free_port())
        check_ports(without_admin(config))


def test_children_do_not_inherit_providers_keys(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "sk-secret")
    monkeypatch.setenv("PLAIN", "kept")
    pool = {"name": "p", "engine": "simulated", "replicas": 1}
    hosted: dict[str, object] = {"name": "h", "engine": "openai", "replicas": ["http://h/v1"]}
    hosted["upstream"] = {"api_key": {"env": "PROVIDER_KEY"}}
    models = [{"name": "m", "tokenizer": "mistral-tekken", "context": 99, "pools": [pool, hosted]}]
    config = convert({"state": str(state_dir), "models": models}, Config, "test")
    before = _children()
    with embedded_store(config, LateSecrets()), local_replicas(LocalPools(config, LateSecrets())):
        environments = [_environment_of(pid) for pid in _children() - before]
        assert len(environments) == 2
        assert not any(b"PROVIDER_KEY" in one for one in environments)
        # Valkey writes its title over its own.
        assert any(b"PLAIN=kept" in one for one in environments)


def _children() -> set[int]:
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}


def _environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()
