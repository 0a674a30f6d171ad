"""What tests of running parts share: replicas, engines that a test holds, and a worker by hand."""

import asyncio
import contextlib
import inspect
import random
from collections.abc import AsyncIterator, Iterable
from functools import lru_cache
from typing import Any

import grpc.aio

from gateway.text.tokens.identity import tokenizer_hash
from gateway.text.tokens.loader import LoadedTokenizer, load_tokenizer
from protos import codec
from protos.types import PROTOCOL_VERSION, Finish, Role, Sampling, Shape, Submit
from replicas.engine import Engine
from replicas.engines.answer_lengths import Corpus, corpus_sentences
from replicas.engines.simulated import SimulatedEngine
from replicas.engines.vocabulary import Vocabulary
from replicas.replica_server import ReplicaServer
from routing.contracts.transport import Event, TokenStream
from routing.transports.replica_spec import ReplicaSpec

MODEL = "mixtral-8x7b"
TP2 = Shape(tp=2)
CORPUS = Corpus(tuple(tuple(10 * i + j for j in range(3 + i % 7)) for i in range(1, 40)), eos=2)


class Gate:
    """An engine's `sleep` that a test holds: each step runs when it is let through."""

    def __init__(self) -> None:
        self._steps = asyncio.Semaphore(0)
        self._open = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        if not self._open.is_set():
            await self._steps.acquire()
        await asyncio.sleep(0)

    def let(self, steps: int) -> None:
        for _ in range(steps):
            self._steps.release()

    def open(self) -> None:
        self._open.set()
        self._steps.release()


@lru_cache(maxsize=1)
def tekken() -> LoadedTokenizer:
    """The bundled tokenizer, loaded once."""
    return load_tokenizer("mistral-tekken")


@lru_cache(maxsize=1)
def tekken_hash() -> str:
    """Its identity, which takes a tenth of a second: as long as all else of a gateway's start."""
    return tokenizer_hash(tekken())


@lru_cache(maxsize=1)
def readable_corpus() -> Corpus:
    """The sentences that ship, as `penstock replica` encodes them."""
    tokenizer = tekken().tokenizer
    sentences = tuple(tuple(tokenizer.encode(line + " ", special=False)) for line in corpus_sentences())
    return Corpus(sentences, eos=min(tokenizer.eos_ids))


@lru_cache(maxsize=1)
def readable_vocabulary() -> Vocabulary:
    """The bundled tokenizer as `penstock replica` passes it to a simulated engine."""
    tokenizer = tekken().tokenizer
    return Vocabulary(
        tokenizer.vocab_size,
        min(tokenizer.eos_ids),
        tokenizer.token_bytes,
        encode=lambda text: tokenizer.encode(text, special=False),
        encode_marked=lambda text: tokenizer.encode(text, special=True),
        specials=tokenizer.specials,
    )


def engine_of(**options: Any) -> SimulatedEngine:
    """A simulated engine that steps as fast as it can; with `sleep`, as fast as that lets it.

    Requests without a seed get the same ones in every run: one answer in eighty is shorter than 30 tokens.
    """
    fixed: dict[str, Any] = {"model": MODEL, "corpus": CORPUS, "shape": TP2, "instant": True, "rng": random.Random(7)}
    return SimulatedEngine(**(fixed | options))


def gated_engine(**options: Any) -> tuple[SimulatedEngine, Gate]:
    """A simulated engine whose steps a test lets through."""
    gate = Gate()
    return engine_of(instant=False, pace_seconds=0.001, sleep=gate, **options), gate


def submit_of(count: int = 8, *, prompt: Iterable[int] = (1, 2, 3), name: str = "r", **options: Any) -> Submit:
    """A request for exactly `count` tokens, unless `options` say otherwise."""
    known = inspect.signature(Sampling).parameters
    sampling = {"seed": 7, "ignore_eos": True} | {k: v for k, v in options.items() if k in known}
    rest = {k: v for k, v in options.items() if k not in known}
    return Submit(name, list(prompt), count, Sampling(**sampling), **rest)


def spec_of(address: str, **options: Any) -> ReplicaSpec:
    """A replica as the configuration would name it, matching `engine_of`."""
    fixed: dict[str, Any] = {"id": "pool/0", "pool": "pool", "model": MODEL, "engine": "simulated", "shape": TP2}
    fixed |= {"role": Role.BOTH, "channels": 4, "streams_per_channel": 512}
    return ReplicaSpec(address=address, **(fixed | options))


@contextlib.asynccontextmanager
async def serving(
    engine: Engine, address: str = "127.0.0.1:0", *, epoch: int | None = None
) -> AsyncIterator[tuple[ReplicaServer, str]]:
    """A replica server and its address."""
    server = ReplicaServer(engine, epoch=epoch)
    bound = await server.start(address)
    try:
        yield server, bound
    finally:
        await server.close()


class Worker:
    """A gateway worker's end of a session, by hand: every message and acknowledgement is the test's own."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._call: Any = channel.stream_stream(codec.SESSION_METHOD)()
        self.tokens: dict[int, list[int]] = {}
        self.finishes: dict[int, Finish] = {}
        self.steps: list[codec.Step] = []

    async def hello(self, *, kv_updates: bool = False, version: int = PROTOCOL_VERSION) -> codec.Welcome:
        await self.write(codec.encode_hello(codec.Hello(version, "by-hand", kv_updates)))
        welcome = codec.decode_down(await self._call.read())
        assert isinstance(welcome, codec.Welcome)
        return welcome

    async def write(self, data: bytes) -> None:
        await self._call.write(data)

    async def read(self) -> Any:
        return await self._call.read()

    async def send(self, *submits: tuple[int, Submit], cancels: Iterable[int] = (), ack: int = 0) -> None:
        await self.write(codec.encode_up(submits, list(cancels), ack))

    async def step(self, *, ack: bool = True) -> codec.Step:
        """The next step, with its tokens and finishes noted."""
        step = codec.decode_down(await self._call.read())
        assert isinstance(step, codec.Step)
        self.steps.append(step)
        at = 0
        for stream_id, count in zip(step.stream_ids, step.counts or [1] * len(step.stream_ids), strict=True):
            self.tokens.setdefault(stream_id, []).extend(step.tokens[at : at + count])
            at += count
        for stream_id, finish in step.finishes:
            assert stream_id not in self.finishes
            self.finishes[stream_id] = finish
        if ack:
            await self.send(ack=step.seq)
        return step

    async def finished(self, *stream_ids: int, ack: bool = True) -> None:
        while not all(stream_id in self.finishes for stream_id in stream_ids):
            await self.step(ack=ack)

    async def leave(self) -> None:
        self._call.cancel()
        await self._channel.close()


@contextlib.asynccontextmanager
async def worker_at(address: str) -> AsyncIterator[Worker]:
    """A session by hand; its first message is the test's own."""
    worker = Worker(grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]))
    try:
        yield worker
    finally:
        await worker.leave()


async def drained(stream: TokenStream, sequences: int = 1) -> tuple[list[list[int]], list[Finish]]:
    """Everything a stream says to its end: tokens and finish of each sequence."""
    tokens: list[list[int]] = [[] for _ in range(sequences)]
    finishes: dict[int, Finish] = {}
    while len(finishes) < sequences:
        for index, new, _, finish in await stream.receive():
            assert index not in finishes
            tokens[index] += new
            if finish is not None:
                finishes[index] = finish
    return tokens, [finishes[index] for index in range(sequences)]


def tokens_in(events: Iterable[Event]) -> list[int]:
    """The tokens of one sequence's events."""
    return [token for _, new, _, _ in events for token in new]


async def answers_of(*requests: Submit, **options: Any) -> list[list[int]]:
    """What an engine like `engine_of` answers, sequence after sequence, asked directly."""
    found: dict[tuple[int, int], list[int]] = {}
    left = {(handle, k) for handle, request in enumerate(requests) for k in range(request.sampling.n)}
    engine, done = engine_of(**options), asyncio.Event()

    def emit(step: Any) -> None:
        for delta in step.deltas:
            found.setdefault((delta.handle, delta.index), []).extend(delta.token_ids)
        for handle, index, _ in step.finishes:
            left.discard((handle, index))
        if not left:
            done.set()

    task = asyncio.create_task(engine.run(emit))
    for handle, request in enumerate(requests):
        engine.submit(handle, request)
    await done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return [found[key] for key in sorted(found)]
