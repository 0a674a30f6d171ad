"""Run `penstock serve`: start and stop the store, admin API, controller, local replica pools and workers in order.

The store starts first and stops last. Replicas outlive the workers, so that streams can finish while these drain.
A worker that dies is restarted by Granian's own supervisor, any other process that dies by this one.
"""

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path

from granian.constants import HTTPModes, Interfaces, Loops, SSLProtocols
from granian.http import HTTP1Settings, HTTP2Settings
from granian.log import LogLevels

from gateway.admin.admin_key import AdminKeyError, admin_key
from gateway.admin.scrape_key import check_scrape_key
from gateway.config.secret_variables import (
    ChildEnvironment,
    LateSecrets,
    hook_variables,
    provider_variables,
    secret_variables,
    version_variables,
)
from gateway.config.settings import Config, usable_cores
from gateway.reload.messages import SUPERVISOR_VARIABLE
from gateway.reload.watched_file import WatchedFile
from gateway.server.child_process import (
    FIRST_RESTART_SECONDS,
    HEALTHY_SECONDS,
    LAST_RESTART_SECONDS,
    ChildProcess,
)
from gateway.server.held_configuration import HeldConfiguration
from gateway.server.local_pools import LocalPools
from gateway.server.ports import StartError, address_of, check_port
from gateway.server.worker import WorkerLoader
from gateway.server.worker_server import WorkerServer
from gateway.server.worker_signals import BEGIN_DRAIN
from gateway.store.embedded import EmbeddedStore, EmbeddedStoreError

log = logging.getLogger(__name__)

#: Seconds that a worker gets beyond `listen.drain_seconds`, to end its streams with an error.
KILL_SECONDS = 2
#: Bound on one HTTP/2 request's headers, names and values together.
MAX_HEADER_BYTES = 1 << 16
#: Seconds that the admin API gets after SIGTERM, beyond its own time to finish.
ADMIN_STOP_SECONDS = 5.0
#: Seconds that the controller gets to stop the replicas of this machine.
CONTROLLER_STOP_SECONDS = 25.0


def take_signals() -> None:
    """Make SIGINT and SIGTERM mean the same, for this process alone; either ends a start with KeyboardInterrupt.

    A Ctrl-C on a terminal goes to every process of the foreground group. A blocked signal stays so in the processes
    that are started from here, hence only this one acts on it and ends the others in order. Call it from the main
    thread, before anything is started; Granian handles SIGTERM once it serves.
    """
    # Granian unblocks SIGINT when it starts this helper, so the helper comes first.
    resource_tracker.ensure_running()
    # A child inherits this: a worker that has not yet come to its handler is not ended by the signal.
    signal.signal(BEGIN_DRAIN, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Until Granian handles it, it need do nothing: a file that changes while it is read is noticed anyhow. It is not
    # ignored, as those that are started would inherit that.
    signal.signal(signal.SIGHUP, lambda *_: None)

    def forward() -> None:
        while True:
            signal.sigwait({signal.SIGINT})
            # Handlers run in the main thread, which only a signal of its own wakes from a wait.
            signal.pthread_kill(main_thread, signal.SIGTERM)

    main_thread = threading.get_ident()
    threading.Thread(target=forward, name="interrupts", daemon=True).start()


def check_ports(config: Config) -> None:
    """Check that every configured address can be bound, before anything is started. Raises StartError."""
    listen, admin = config.listen, config.admin
    check_port(listen.host, listen.port, "listen")
    if admin.enabled:
        check_port(admin.host, admin.port, "admin")


def make_state_folder(config: Config) -> None:
    """Make the folder private before anything is put into it: parents that are made on the way are open to all."""
    # What cannot be put into it later says why.
    with contextlib.suppress(OSError):
        config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)


class StoreProcess:
    """Restart the embedded store with growing delays when it dies."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self._delay = FIRST_RESTART_SECONDS
        self._restart_at = 0.0
        self._healthy_at = 0.0

    def watch(self) -> None:
        """Restart the store if it has died and its delay is over. Call it at regular times."""
        now = time.monotonic()
        if self._store.pid is not None or now < self._restart_at:
            return
        log.error("the embedded store has ended; restarting it")
        if now > self._healthy_at:
            self._delay = FIRST_RESTART_SECONDS
        try:
            self._store.start()
        except EmbeddedStoreError as error:
            log.error("%s", error)  # noqa: TRY400 - its text is all that an operator needs
        now = time.monotonic()
        self._restart_at, self._healthy_at = now + self._delay, now + HEALTHY_SECONDS
        self._delay = min(self._delay * 2, LAST_RESTART_SECONDS)


@contextlib.contextmanager
def embedded_store(config: Config, late: LateSecrets) -> Iterator[None]:
    """Run the embedded store, if the configuration has one, until the block ends. Raises EmbeddedStoreError."""
    if not config.store.embedded:
        yield
        return
    store = EmbeddedStore(config.state_dir, ChildEnvironment(secret_variables(config), late))

    def start(_: threading.Event) -> None:
        store.start()

    with _running_in_thread("store", start, StoreProcess(store).watch, store.stop):
        yield


@contextlib.contextmanager
def local_replicas(pools: LocalPools) -> Iterator[None]:
    """Run all local replica pools until the block ends; they start together. Raises StartError."""
    with _running_in_thread("replicas", pools.start, pools.watch, pools.stop):
        yield


@contextlib.contextmanager
def admin_api(config: Config, config_file: Path, late: LateSecrets) -> Iterator[None]:
    """Run the admin API's process, if it is enabled, until the block ends. Raises StartError."""
    if not config.admin.enabled:
        yield
        return
    try:
        # Create the key here, so that an unusable one ends the start.
        check_scrape_key(config, admin_key(config))
    except AdminKeyError as error:
        raise StartError(str(error)) from error
    command = [sys.executable, "-P", "-m", "gateway.cli.main", "admin", "--config", str(config_file.resolve())]
    process = ChildProcess("the admin API", command, environment=ChildEnvironment(provider_variables(config), late))

    def start(_: threading.Event) -> None:
        process.start()

    def stop() -> None:
        process.stop(time.monotonic() + ADMIN_STOP_SECONDS)

    with _running_in_thread("admin API", start, process.watch, stop):
        yield


@contextlib.contextmanager
def controller(config: Config, config_file: Path, late: LateSecrets) -> Iterator[None]:
    """Run the controller's process, if there is anything for it to do and it shall run here, until the block ends.

    Raises StartError.

    At its end it stops the replicas that it has started on this machine: leave the block after the workers have ended.
    """
    if not (config.needs_controller and config.controller.enabled):
        yield
        return
    command = [sys.executable, "-P", "-m", "gateway.cli.main", "controller", "--config", str(config_file.resolve())]
    kept = hook_variables(config) | version_variables(config)
    given = {name: os.environ[name] for name in kept if name in os.environ}
    environment = ChildEnvironment(provider_variables(config), late, given, for_versions=True)
    process = ChildProcess("the controller", command, environment=environment)

    def start(_: threading.Event) -> None:
        process.start()

    def stop() -> None:
        process.stop(time.monotonic() + CONTROLLER_STOP_SECONDS)

    with _running_in_thread("controller", start, process.watch, stop):
        yield


@contextlib.contextmanager
def _running_in_thread(
    name: str, start: Callable[[threading.Event], None], watch: Callable[[], None], stop: Callable[[], None]
) -> Iterator[None]:
    """Run `start`, `watch` at regular times and finally `stop` in one thread. Raises what `start` raises.

    The thread lives as long as the child: the kernel ends a child with the thread that started it.
    """
    stopping, started = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            start(stopping)
        except BaseException as error:
            failures.append(error)
        started.set()
        while not stopping.wait(0.2):
            try:
                watch()
            except Exception:
                # This thread's end would end its children too; the next round tries again.
                log.exception("cannot look after the %s", name)
        stop()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        started.wait()
        if failures:
            raise failures[0]
        yield
    finally:
        stopping.set()
        thread.join()


@contextlib.contextmanager
def configuration(
    config: Config, watched: WatchedFile, check: Callable[[Path], Config], pools: LocalPools
) -> Iterator[HeldConfiguration]:
    """Hold the configuration in use for all processes, and have them take a changed one, until the block ends.

    `watched` is its file, from before it was read. `check` reads the file and checks whatever it refers to on this
    machine; it raises ConfigError. `pools` run what the configuration wants to run here.
    """
    held = HeldConfiguration(config, watched, check, pools)
    held.start()
    # Processes that are started in the block find it there.
    os.environ[SUPERVISOR_VARIABLE] = str(held.socket)
    try:
        yield held
    finally:
        del os.environ[SUPERVISOR_VARIABLE]
        held.stop()


def serve_workers(config: Config, held: HeldConfiguration, started: Callable[[], None]) -> None:
    """Run Granian's workers until a signal ends them; call `started` in a thread of its own once they run.

    Raises StartError.
    """
    # glibc gives each thread of a worker a heap of its own, which costs 10 MB and more and gains nothing here.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    listen = config.listen
    server = WorkerServer(
        "gateway.server.worker:load_worker",
        address=address_of(listen.host, "listen"),
        port=listen.port,
        interface=Interfaces.ASGI,
        workers=listen.worker_count(usable_cores()),
        loop=Loops.uvloop,
        http=HTTPModes.auto if listen.http2 else HTTPModes.http1,
        websockets=False,
        backlog=4096,
        # The limit counts connections, idle keep-alive ones too, so it lies well above `max_in_flight`, which refuses
        # requests with an answer where this limit would only let clients wait.
        backpressure=4 * listen.max_in_flight,
        http1_settings=HTTP1Settings(header_read_timeout=listen.header_timeout_seconds * 1000),
        # Without keep-alive probes a client that has vanished would keep its connection for ever.
        http2_settings=HTTP2Settings(
            keep_alive_interval=listen.header_timeout_seconds * 1000, max_headers_size=MAX_HEADER_BYTES
        ),
        ssl_cert=None if listen.tls is None else Path(listen.tls.certificate),
        ssl_key=None if listen.tls is None else Path(listen.tls.key),
        ssl_protocol_min=SSLProtocols.tls12,
        respawn_failed_workers=True,
        respawn_interval=0.1,
        workers_kill_timeout=max(1, round(listen.drain_seconds)) + KILL_SECONDS,
        log_level=LogLevels.warning,
        # Granian's log lines take the same form as all others.
        log_dictconfig={"handlers": {}, "loggers": {"_granian": {"propagate": True}}},
    )
    threading.Thread(target=started, name="announce", daemon=True).start()
    stop = partial(server.stop_in_order, listen.grace_seconds, listen.drain_seconds)
    threading.Thread(target=stop, name="stop", daemon=True).start()
    hangups = partial(server.answer_hangups, held.reload)
    threading.Thread(target=hangups, name="hangups", daemon=True).start()
    server.serve(target_loader=WorkerLoader(held.config, str(held.socket)), wrap_loader=False)
