"""A benchmark's gateway stack: one worker with API keys on one core, and simulated replicas on another core."""

import contextlib
import functools
import json
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal

import msgspec

from loadtest.load.client import LoadResult, LoadSpec, Progress
from loadtest.load.filter_load import LONG_PROMPT, blocklist
from loadtest.load.parsing_load import OUTPUT, script
from loadtest.load.processes import BenchError, choose_cores, command_line, on_core, process_tree, running
from replicas.engines.answer_lengths import corpus_sentences

MODEL: Final = "mixtral-8x7b"
#: The variant of a load: a tenant without limits, with limits, or with filters; a gateway with telemetry; a gateway
#: that parses answers of text, reasoning or tool calls.
Variant = Literal["plain", "limited", "filtered", "observed", "parsed", "thinking", "calling"]
_TENANTS: Final[Mapping[Variant, str]] = {
    "plain": "default",
    "limited": "limited",
    "filtered": "filtered",
    "observed": "default",
    "parsed": "default",
    "thinking": "default",
    "calling": "default",
}
_SYSTEM: Final = "You are a helpful assistant."
_READY_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 60.0
_CLI: Final = [sys.executable, "-P", "-m", "gateway.cli.main"]
#: The tenant `limited` has every kind of limit, each too high to be reached.
_CONFIG: Final = """\
listen: {{host: 127.0.0.1, port: {port}, workers: {workers}, grace_seconds: 0, drain_seconds: 2}}
state: state
admin: {{enabled: false}}
models:
  - name: {model}
{lines}    context: {context}
    price: {{input: 0.5, cached_input: 0.05, output: 1.5}}
    pools:
{pools}
tenants:
  - name: limited
    limits: {{rpm: 1000000000, tpm: 1000000000000, concurrency: 1000000, budget: {{usd: 1000000, period: month}}}}
"""
#: The default policy needs thousands of long prompts to learn that an engine takes no time and holds them back until
#: then, which would distort the cost of filters.
_NO_PACING: Final = "    routing: {policy: least_load}\n"
_BLOCKLIST: Final = "blocklist.txt"
#: The end of a configuration in which the tenant `filtered` has every shipped filter in both directions.
_FILTERS: Final = f"""\
  - {{name: filtered, safety: everything}}
safety:
  filters: [{{name: list, terms: {{file: {_BLOCKLIST}}}}}]
  policies:
    - {{name: everything, input: [pii, injection, list], output: [pii, injection, list]}}
"""


_UNOBSERVED: Final = """\
observability:
  metrics: {enabled: false}
  journal: {enabled: false}
  logs: {requests: none}
"""
_OBSERVED: Final = """\
observability:
  traces: {{enabled: true, sample: 0.01, endpoint: "http://127.0.0.1:{port}"}}
"""


@dataclass(frozen=True, slots=True)
class Stack:
    """A running gateway and what a load needs to use it."""

    port: int
    keys: Mapping[Variant, str]
    config: Path
    gateway_pid: int
    worker_pids: tuple[int, ...]
    replica_pids: tuple[int, ...]
    gateway_core: int
    load_core: int

    @property
    def worker_pid(self) -> int:
        """The only worker's process."""
        (pid,) = self.worker_pids
        return pid

    def others_busy(self, result: LoadResult) -> float:
        """Return the share of a core's time in a window used by other processes, the worse of the two cores."""
        replicas = self.replica_cpu_seconds(result)
        engine = replicas + result.client_cpu_seconds
        gateway = sum(result.cpu_seconds.values()) - replicas
        ours = {self.gateway_core: gateway, self.load_core: engine}
        if self.gateway_core == self.load_core:
            ours = {self.gateway_core: gateway + engine}
        others = max(result.core_seconds[core] - used for core, used in ours.items())
        return round(max(0.0, others) / result.seconds, 3)

    def replica_cpu_seconds(self, result: LoadResult) -> float:
        """Return the replicas' CPU seconds in a window."""
        return sum(result.cpu_seconds[pid] for pid in self.replica_pids)

    def script_calls(self) -> int:
        """Return the number of scripts that the store has run so far."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(5.0)
            client.connect(str(self.config.parent / "state" / "store.sock"))
            client.sendall(b"*2\r\n$4\r\nINFO\r\n$12\r\ncommandstats\r\n")
            with client.makefile("rb") as reply:
                text = reply.read(int(reply.readline()[1:])).decode()
        found = re.search(r"^cmdstat_evalsha:calls=(\d+)", text, re.MULTILINE)
        return int(found[1]) if found else 0

    def load(
        self, spec: LoadSpec, progress: Callable[[int], None] = lambda _: None, *, variant: Variant = "plain"
    ) -> LoadResult:
        """Run a load in its own process. `progress` gets the number of answers. Raises BenchError."""
        with self._client(spec, variant) as client:
            assert client.stdout is not None
            for line in client.stdout:
                if not line.endswith(b"\n"):
                    break
                message = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
                if "progress" in message:
                    progress(msgspec.json.decode(message["progress"], type=Progress).ended)
                elif "failure" in message:
                    raise BenchError(f"the load ended early: {msgspec.json.decode(message['failure'], type=str)}")
                else:
                    return msgspec.json.decode(message["result"], type=LoadResult)
            client.wait()
        raise BenchError(f"the load client ended with status {client.returncode} and no whole result")

    def ask(self, body: bytes, variant: Variant) -> bytes:
        """Send one request and return the answer's body. Raises BenchError."""
        headers = {"authorization": f"Bearer {self.keys[variant]}", "content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/chat/completions", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:
                answered: bytes = answer.read()
                return answered
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            raise BenchError(f"a {variant} request got status {error.code}: {text}") from None
        except OSError as error:
            raise BenchError(f"a {variant} request got no answer: {error}") from None

    def limited_use(self) -> dict[str, int]:
        """Return the limited key's usage so far, from `penstock usage`. Raises BenchError."""
        rows = _json_of(
            "usage", "--config", str(self.config), "--tenant", "limited", "--by", "tenant", "--since", "24h"
        )
        used: dict[str, int] = rows[0] if rows else {}
        return used

    @contextlib.contextmanager
    def flood(self, spec: LoadSpec) -> Iterator[None]:
        """Run a load with the limited key during the block; its result is discarded."""
        with self._client(spec, "limited", watched=False) as client:
            yield
            if client.poll() is not None:
                raise BenchError("the load that was to go on all the while has ended early")

    @contextlib.contextmanager
    def _client(self, spec: LoadSpec, variant: Variant, *, watched: bool = True) -> "Iterator[subprocess.Popen[bytes]]":
        """Start a load client and send it its specification."""
        spec = msgspec.structs.replace(
            spec,
            port=self.port,
            headers={"authorization": f"Bearer {self.keys[variant]}"},
            watch=[*process_tree(self.gateway_pid), *self.replica_pids] if watched else [],
            watch_cores=[self.gateway_core, self.load_core] if watched else [],
        )
        output = subprocess.PIPE if watched else subprocess.DEVNULL
        command = [sys.executable, "-P", "-m", "loadtest.load.client"]
        with running(command, self.load_core, stdin=subprocess.PIPE, stdout=output) as client:
            assert client.stdin is not None
            client.stdin.write(msgspec.json.encode(spec))
            client.stdin.close()
            yield client


@dataclass(frozen=True, slots=True)
class BenchPool:
    """A pool of replicas of one shape, all in one process."""

    name: str
    tp: int
    ep: int = 1
    replicas: int = 1
    version: str = ""


@contextlib.contextmanager
def gateway_stack(
    engine: list[str],
    *,
    pools: Sequence[BenchPool] = (BenchPool("bench", tp=2),),
    context: int = 32768,
    workers: int = 1,
    transport: Literal["simulated", "trtllm_grpc"] = "simulated",
    filters: bool = False,
    observed: bool = False,
    parsed: bool = False,
    cores: tuple[int, int] | None = None,
    more: str = "",
) -> Iterator[Stack]:
    """Start the store, workers and replicas with these engine options; all end with the block.

    `transport` is the engine in the gateway's configuration: replicas serve both sessions and TensorRT-LLM's own
    service. With `filters` there is the variant `filtered` too; an `observed` gateway has metrics, a journal, and
    traces of 1 %; a `parsed` one parses answers, and its replicas have a script of reasoning and tool calls
    (loadtest/load/parsing_load.py). `more` is the end of the configuration.
    One worker and the gateway's other processes share the first core that this process may use; the replicas, the load
    client and, in the block, this process share the last one. A second stack must be given the same `cores`, as the
    process is then pinned to one of them. Several `workers` may use all cores. Raises BenchError.
    """
    with _bench(cores, filters=filters, observed=observed) as bench:
        ports = free_ports(sum(pool.replicas for pool in pools))
        processes, lines = {}, []
        model = "    tokenizer: mistral-tekken\n"
        if parsed:
            answers = bench.folder / "answers.jsonl"
            answers.write_bytes(script())
            engine = [*engine, "--answers", str(answers)]
            model += f"    output: {OUTPUT}\n"
        for pool in pools:
            addresses = [f"127.0.0.1:{ports.pop()}" for _ in range(pool.replicas)]
            command = [*_CLI, "replica", "--engine", "simulated", "--model", MODEL, "--drain-seconds", "1", *engine]
            command += ["--tp", str(pool.tp), "--ep", str(pool.ep), "--max-sequence-tokens", str(context)]
            for address in addresses:
                command += ["--listen", address]
            processes[f"the replica {pool.name}"] = bench.start(command)
            replicas = json.dumps([f"grpc://{address}" for address in addresses])
            shape = f"{{tp: {pool.tp}, ep: {pool.ep}}}" + (f", version: {pool.version}" if pool.version else "")
            lines.append(f"      - {{name: {pool.name}, shape: {shape}, engine: {transport}, replicas: {replicas}}}")
        yield bench.serve(lines, processes, context, model, workers, more)


@contextlib.contextmanager
def upstream_stack(
    output_tokens: int,
    pace_ms: float,
    *,
    filters: bool = False,
    observed: bool = False,
    cores: tuple[int, int] | None = None,
) -> Iterator[Stack]:
    """Start a stack in front of loadtest/load/mock_upstream.py."""
    with _bench(cores, filters=filters, observed=observed) as bench:
        (port,) = free_ports(1)
        command = [sys.executable, "-P", "-m", "loadtest.load.mock_upstream"]
        command += [str(port), str(output_tokens), str(pace_ms)]
        processes = {"the upstream": bench.start(command)}
        pool = f'      - {{name: bench, engine: openai, replicas: ["http://127.0.0.1:{port}/v1"]}}'
        yield bench.serve([pool], processes, 32768, "")


@dataclass(frozen=True, slots=True)
class _Bench:
    """The set-up of a stack: its folder, its cores, and its exit stack."""

    ending: contextlib.ExitStack
    folder: Path
    log: IO[bytes]
    gateway_core: int
    load_core: int
    filters: bool
    observed: bool

    def start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        """Start a process behind the gateway."""
        return self.ending.enter_context(running(command, self.load_core, log=self.log))

    def serve(
        self,
        pools: Sequence[str],
        processes: "dict[str, subprocess.Popen[bytes]]",
        context: int,
        lines: str,
        workers: int = 1,
        more: str = "",
    ) -> Stack:
        """Start the gateway in front of these processes, with these pools and configuration lines of its model."""
        (port,) = free_ports(1)
        config = self.folder / "penstock.yaml"
        if self.filters:
            lines += _NO_PACING
        text = _CONFIG.format(
            port=port, pools="\n".join(pools), model=MODEL, context=context, lines=lines, workers=workers
        )
        if self.filters:
            text += _FILTERS
            terms = blocklist([_SYSTEM, LONG_PROMPT, *corpus_sentences()])
            (self.folder / _BLOCKLIST).write_text("\n".join(terms))
        if self.observed:
            (collector,) = free_ports(1)
            command = [sys.executable, "-P", "-m", "loadtest.load.collector", str(collector)]
            processes = {**processes, "the collector": self.start(command)}
            text += _OBSERVED.format(port=collector)
        else:
            text += _UNOBSERVED
        config.write_text(text + more)
        command = [*_CLI, "serve", "--config", str(config)]
        cores = {self.gateway_core} if workers == 1 else {self.gateway_core, self.load_core}
        gateway = self.ending.enter_context(running(command, *cores, log=self.log))
        wait_until_ready(port, {**processes, "the gateway": gateway}, self.log)
        variants = {key: tenant for key, tenant in _TENANTS.items() if self.filters or key != "filtered"}
        keys = {tenant: create_key(config, tenant) for tenant in dict.fromkeys(variants.values())}
        return Stack(
            port=port,
            keys={variant: keys[tenant] for variant, tenant in variants.items()},
            config=config,
            gateway_pid=gateway.pid,
            worker_pids=workers_of(gateway.pid, workers),
            replica_pids=tuple(process.pid for process in processes.values()),
            gateway_core=self.gateway_core,
            load_core=self.load_core,
        )


@contextlib.contextmanager
def _bench(cores: tuple[int, int] | None, *, filters: bool, observed: bool) -> Iterator[_Bench]:
    gateway_core, load_core = cores or choose_cores()
    with contextlib.ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        log = ending.enter_context((folder / "log").open("a+b"))
        ending.enter_context(on_core(load_core))
        yield _Bench(ending, folder, log, gateway_core, load_core, filters, observed)


def create_key(config: Path, tenant: str) -> str:
    """Make an API key of a tenant. Raises BenchError."""
    key: str = _json_of("keys", "create", "--config", str(config), "--name", tenant, "--tenant", tenant)["key"]
    return key


def _json_of(*command: str) -> Any:
    """Run a penstock command with --json and return its output. Raises BenchError."""
    done = subprocess.run([*_CLI, *command, "--json"], capture_output=True, check=False)
    if done.returncode:
        raise BenchError(f"penstock {command[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return json.loads(done.stdout)


def chat_body(prompt: str, *, stream: bool, max_tokens: int, **more: object) -> bytes:
    """Make a chat request's JSON; streams include usage, so that tokens are counted and not assumed."""
    body: dict[str, object] = {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": _SYSTEM},
            {"role": "user", "content": prompt},
        ],
        "max_tokens": max_tokens,
        "stream": stream,
        **more,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    return msgspec.json.encode(body)


def random_prompt(rng: random.Random, words: int) -> str:
    """Make a text without shared prefixes: common words in random order."""
    return " ".join(rng.choices(_vocabulary(), k=words))


@functools.cache
def _vocabulary() -> list[str]:
    return " ".join(corpus_sentences()).split()


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_until_ready(port: int, processes: "dict[str, subprocess.Popen[bytes]]", log: IO[bytes]) -> None:
    """Wait for the gateway behind which these processes are. Raises BenchError, also as soon as one of them ends."""
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        for name, process in processes.items():
            if process.poll() is not None:
                raise BenchError(f"{name} ended with status {process.returncode}: {_last_line(log)}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
                return
        except (OSError, urllib.error.URLError):
            if time.monotonic() > deadline:
                raise BenchError(f"the gateway is not ready after {_READY_SECONDS:.0f} s: {_last_line(log)}") from None
            time.sleep(0.05)


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


def workers_of(gateway_pid: int, count: int) -> tuple[int, ...]:
    """Return the ids of the workers among the gateway's children, which include the store and multiprocessing's own."""
    workers = tuple(pid for pid in process_tree(gateway_pid) if "--multiprocessing-fork" in command_line(pid))
    if len(workers) != count:
        raise BenchError(f"expected {count} worker processes under the gateway, found {len(workers)}")
    return workers
