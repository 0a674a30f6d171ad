"""Starts what a scenario needs: a store, one worker whose bytecodes can be counted, and a replica."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtest.cost.counter_server import CounterClient, connected
from loadtest.cost.scenarios import MODELS, Setup
from loadtest.load.processes import choose_cores, running
from loadtest.load.stack import create_key, free_ports, wait_until_ready, worker_of

_CLI = [sys.executable, "-m", "gateway.cli.main"]
_COUNTED = [sys.executable, "-m", "loadtest.cost.counted_serve"]
#: Answers are as long as `max_tokens` says.
_REPLICA = [*_CLI, "replica", "--engine", "simulated", "--drain-seconds", "1", "--tp", "2", "--output-tokens", "1000"]
_REPLICA += ["--max-sequence-tokens", "32768"]


@dataclass(frozen=True, slots=True)
class CostStack:
    """A running gateway whose worker is counted."""

    port: int
    key: str
    worker_pid: int
    counter: CounterClient
    store: Path


@contextlib.contextmanager
def cost_stack(setup: Setup) -> Iterator[CostStack]:
    """Start a setup's gateway; all of its processes end with the block. Raises BenchError."""
    gateway_core, load_core = choose_cores()
    with contextlib.ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="penstock-cost-")))
        log = ending.enter_context((folder / "log").open("a+b"))
        port, collector_port, *ports = free_ports(2 + len(MODELS))
        replicas = dict(zip(MODELS, ports, strict=True))
        config = folder / "penstock.yaml"
        config.write_text(setup.config(port, replicas, collector_port))
        processes = {}
        for model, pace in MODELS.items():
            command = [*_REPLICA, *pace, "--model", model, "--listen", f"127.0.0.1:{replicas[model]}"]
            processes[f"the replica {model}"] = ending.enter_context(running(command, load_core, log=log))
        if setup.telemetry:
            command = [sys.executable, "-m", "loadtest.load.collector", str(collector_port)]
            processes["the collector"] = ending.enter_context(running(command, load_core, log=log))
        counter = str(folder / "counter.sock")
        command = [*_COUNTED, counter, "serve", "--config", str(config)]
        gateway = ending.enter_context(running(command, gateway_core, log=log))
        wait_until_ready(port, {**processes, "the gateway": gateway}, log)
        yield CostStack(
            port=port,
            key=create_key(config, setup.tenant),
            worker_pid=worker_of(gateway.pid),
            counter=ending.enter_context(connected(counter)),
            store=folder / "state" / "store.sock",
        )
