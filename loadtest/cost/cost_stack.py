"""Starts what scenarios need: a store, one worker and what answers its requests."""

import contextlib
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from loadtest.cost.scenarios import CANDIDATE, WHOLE, WORDS, Setup
from loadtest.load.processes import BenchError, choose_cores, process_tree, running
from loadtest.load.stack import create_key, free_ports, wait_until_ready, workers_of
from protos.script import Line

_CLI = [sys.executable, "-P", "-m", "gateway.cli.main"]
#: Milliseconds of an engine's step: so long that a worker is done with it before the next one, however it is counted.
PACE_MS = 20.0
#: Seconds in which a rollout begins: replicas are found, and a controller takes its lease.
_ROLLOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CostStack:
    """A running gateway. `processes` are its own and the store's, `replicas` the ports behind it."""

    port: int
    key: str
    worker_pid: int
    processes: tuple[int, ...]
    replicas: tuple[int, ...]
    folder: Path

    @property
    def store(self) -> Path:
        """The store's socket."""
        return self.folder / "state" / "store.sock"


@contextlib.contextmanager
def cost_stack(
    setup: Setup, *, command: Callable[[Path], list[str]] = lambda _: _CLI, pace_ms: float = PACE_MS
) -> Iterator[CostStack]:
    """Start a setup's gateway; all of its processes end with the block. Raises BenchError.

    `command` returns what stands for `penstock`, given the folder of the run.
    """
    gateway_core, load_core = choose_cores()
    with contextlib.ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="penstock-cost-")))
        log = ending.enter_context((folder / "log").open("a+b"))
        port, collector_port, *ports = free_ports(2 + 2 * len(WORDS))
        stable = dict(zip(WORDS, ports, strict=False)) if setup.rollout else {}
        ports = ports[len(WORDS) :]
        replicas = dict(zip(WORDS, ports, strict=True))
        config = folder / "penstock.yaml"
        config.write_text(setup.config(port, replicas, collector_port, stable))
        processes = {}
        for model, at in stable.items():
            started = _engine(setup, model, at, 0.0, folder)
            processes[f"the replica {model} of the stable version"] = ending.enter_context(
                running(started, load_core, log=log)
            )
        for model, at in replicas.items():
            started = _engine(setup, model, at, 0.0 if model == WHOLE else pace_ms, folder)
            processes[f"the replica {model}"] = ending.enter_context(running(started, load_core, log=log))
        if setup.telemetry:
            started = [sys.executable, "-P", "-m", "loadtest.load.collector", str(collector_port)]
            processes["the collector"] = ending.enter_context(running(started, load_core, log=log))
        served = [*command(folder), "serve", "--config", str(config)]
        gateway = ending.enter_context(running(served, gateway_core, log=log))
        wait_until_ready(port, {**processes, "the gateway": gateway}, log)
        key = create_key(config, setup.tenant)
        if setup.rollout:
            for model in WORDS:
                _wait_for_candidate(port, key, model)
        yield CostStack(
            port=port,
            key=key,
            worker_pid=workers_of(gateway.pid, 1)[0],
            processes=tuple(process_tree(gateway.pid)),
            replicas=tuple(ports),
            folder=folder,
        )


def _wait_for_candidate(port: int, key: str, model: str) -> None:
    """Wait until the worker follows the rollout. Raises BenchError."""
    body = msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "?"}], "max_tokens": 1})
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, headers)
    deadline, answered = time.monotonic() + _ROLLOUT_SECONDS, ""
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(request, timeout=_ROLLOUT_SECONDS) as response:
                answered = response.headers.get("x-penstock-version", "")
        except OSError as error:
            raise BenchError(f"a request before the count got no answer: {error}") from None
        if answered == CANDIDATE:
            return
        time.sleep(0.2)
    raise BenchError(f"the rollout of {model} did not begin within {_ROLLOUT_SECONDS:.0f} s: {answered} answers")


def _engine(setup: Setup, model: str, port: int, pace_ms: float, folder: Path) -> list[str]:
    """Return the command of what answers for a model; without a pace, as fast as it can."""
    if setup.relayed:
        return [sys.executable, "-P", "-m", "loadtest.load.mock_upstream", str(port), str(WORDS[model]), f"{pace_ms:g}"]
    answers = folder / f"{model}.jsonl"
    answers.write_bytes(msgspec.json.encode(Line("", setup.answer(model))) + b"\n")
    pace = ["--pace-ms", f"{pace_ms:g}"] if pace_ms else ["--instant"]
    command = [*_CLI, "replica", "--engine", "simulated", "--model", model, "--listen", f"127.0.0.1:{port}"]
    command += ["--tp", "2", "--max-sequence-tokens", "32768", "--drain-seconds", "1", "--answers", str(answers)]
    return command + pace
