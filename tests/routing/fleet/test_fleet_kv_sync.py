"""KV updates over real sessions: from an engine's events to the directory of a worker."""

import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest

from protos import codec
from protos.prefix_hash import prefix_hashes
from protos.types import KvCreated, KvEvent, KvRemoved, KvStored, KvUpdate, Load
from replicas import kv_events
from replicas.replica_server import ACK_WINDOW
from routing.fleet.fleet import Fleet
from routing.prefix.prefix_directory import PrefixDirectory
from routing.transports.replica_connection import TransportContext
from routing.transports.session_transport import SessionConnection
from tests.fakes import INFO, RawReplica, SilentEngine
from tests.harness import drained, engine_of, serving, spec_of, submit_of, worker_at
from tests.loops import until

SIZE = INFO.kv_block_tokens
PROMPT = list(range(SIZE * 4 + 1))
CHAIN = prefix_hashes(PROMPT, SIZE)
BLOCKS = tuple((100 + i, tuple(PROMPT[i * SIZE : (i + 1) * SIZE])) for i in range(4))
SEEN = {"pool/0": len(PROMPT) - 1}


def stored(event_id: int, first: int = 0, last: int = 4) -> KvEvent:
    """Blocks of the prompt."""
    return KvEvent(event_id, KvStored(BLOCKS[first - 1][0] if first else None, BLOCKS[first:last]))


def held(directory: PrefixDirectory) -> dict[str, int]:
    return dict(directory.look_up(PROMPT).cached)


@contextlib.asynccontextmanager
async def fleet_at(
    address: str, directory: PrefixDirectory | None = None, **options: int
) -> AsyncIterator[tuple[Fleet, PrefixDirectory]]:
    directory = directory or PrefixDirectory()
    fleet = Fleet([spec_of(address, **options)], "test", directory)
    fleet.start()
    try:
        await fleet.wait_ready(1)
        yield fleet, directory
    finally:
        await fleet.aclose()


async def test_what_an_engine_stores_is_found_for_the_next_request() -> None:
    prompt = [number % 300 for number in range(700)]

    async with serving(engine_of()) as (_, address), fleet_at(address) as (fleet, directory):
        for salt, cached in (("", 0), ("", 672), ("tenant", 0)):
            predicted = directory.look_up(prompt, salt).cached.get("pool/0", 0)
            assert predicted == cached
            stream = fleet.open("pool/0", submit_of(4, prompt=prompt, cache_salt=salt))
            _, (finish,) = await drained(stream)
            stream.close()
            assert finish.cached_tokens == cached
            directory.record_cached("pool/0", predicted, finish.cached_tokens)
            await until(lambda salt=salt: directory.look_up(prompt, salt).cached)  # type: ignore[misc]
        assert directory.accuracy()["pool/0"].exact
        assert directory.accuracy()["pool/0"].requests == 1


async def test_a_late_worker_hears_of_all_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_events, "MAX_UPDATE_HASHES", 1)

    engine = SilentEngine()
    async with serving(engine) as (_, address), fleet_at(address) as (_, early):
        engine.say(events=[KvEvent(0, KvCreated((1024,))), stored(1)])
        await until(lambda: held(early) == SEEN)
        async with fleet_at(address) as (_, late):
            await until(lambda: held(late) == SEEN)
            engine.say(events=[KvEvent(2, KvRemoved((103,)))])
            for directory in (early, late):
                await until(lambda d=directory: held(d) == {"pool/0": 3 * SIZE})  # type: ignore[misc]


async def test_only_one_session_of_a_worker_carries_updates() -> None:
    replica = RawReplica()
    async with replica.listening() as address, fleet_at(address, channels=2, streams_per_channel=1) as (fleet, _):
        streams = [fleet.open("pool/0", submit_of()) for _ in range(2)]
        await until(lambda: len(replica.hellos) == 2)
        assert [hello.kv_updates for hello in replica.hellos] == [True, False]
        for stream in streams:
            stream.close()
    async with replica.listening() as address:
        connection = SessionConnection(spec_of(address), TransportContext("test"))
        connection.start()
        await until(lambda: len(replica.hellos) == 3)
        assert not replica.hellos[2].kv_updates
        await connection.aclose()


async def test_a_lost_update_is_mended() -> None:
    replica = RawReplica()
    async with replica.listening() as address, fleet_at(address) as (_, directory):
        await replica.send(codec.Step(1, kv_update=KvUpdate(1, True, CHAIN[:2])))
        await until(lambda: held(directory) == {"pool/0": 2 * SIZE})
        await replica.send(codec.Step(2, kv_update=KvUpdate(3, stored=CHAIN[2:])))
        await until(lambda: any(up.kv_resync for up in replica.ups))
        assert held(directory) == {}
        await replica.send(codec.Step(3, kv_update=KvUpdate(4, True, CHAIN)))
        await until(lambda: held(directory) == SEEN)
        assert sum(up.kv_resync for up in replica.ups) == 1


class Misses(PrefixDirectory):
    """Never hears of one update."""

    def __init__(self, update_id: int) -> None:
        super().__init__()
        self._missed = update_id
        self.has_events = 0

    def updated(self, replica_id: str, update: KvUpdate) -> bool:
        self.has_events += 1
        if update.update_id == self._missed:
            self._missed = 0
            return True
        return super().updated(replica_id, update)


@pytest.mark.parametrize("missed", [1, 2])
async def test_a_replica_says_again_what_its_worker_has_missed(missed: int) -> None:
    engine = SilentEngine()
    directory = Misses(missed)
    async with serving(engine) as (_, address), fleet_at(address, directory):
        for block in range(4):
            engine.say(events=[stored(block, block, block + 1)])
            await until(lambda block=block: directory.has_events > block)  # type: ignore[misc]
        await until(lambda: held(directory) == SEEN)


async def test_a_worker_that_asks_gets_everything_anew() -> None:
    engine = SilentEngine()
    async with serving(engine) as (_, address), worker_at(address) as worker:
        await worker.hello(kv_updates=True)
        engine.say(events=[stored(0)])
        updates = list[KvUpdate]()
        while not updates:
            updates += [update for update in [(await worker.step()).kv_update] if update]
        await worker.write(codec.encode_up((), (), 0, kv_resync=True))
        while len(updates) < 2:
            updates += [update for update in [(await worker.step()).kv_update] if update]
        assert [(update.update_id, update.reset) for update in updates] == [(1, True), (2, True)]
        assert set(updates[0].stored) == set(updates[1].stored) == set(CHAIN)


async def test_a_worker_that_does_not_read_does_not_cost_memory_and_gets_all_once_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kv_events, "MAX_PENDING_HASHES", 50)

    engine = SilentEngine()
    async with serving(engine) as (server, address), worker_at(address) as worker:
        await worker.hello(kv_updates=True)
        numbers = itertools.count()
        while worker.steps == [] or worker.steps[-1].seq < ACK_WINDOW:
            number = next(numbers)
            engine.say(events=[KvEvent(number, KvStored(None, ((number, (number,) * SIZE),)))], load=Load())
            await worker.step(ack=False)
        for _ in range(200):
            number = next(numbers)
            engine.say(events=[KvEvent(number, KvStored(None, ((number, (number,) * SIZE),)))])
        (feed,) = server._ledger._feeds
        assert len(feed._touched) <= 50
        await worker.send(ack=worker.steps[-1].seq)
        known = set[int]()
        while known != server._ledger.held.keys():
            update = (await worker.step()).kv_update
            if update is not None:
                known = (set() if update.reset else known) | set(update.stored)
        resets = [step.kv_update.update_id for step in worker.steps if step.kv_update and step.kv_update.reset]
        assert len(resets) == 2
        assert len(known) == number + 1


async def test_a_restarted_replica_has_an_empty_cache() -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with serving(engine_of(), epoch=1) as (_, address):
            fleet, directory = await stack.enter_async_context(fleet_at(address))
            stream = fleet.open("pool/0", submit_of(prompt=PROMPT))
            await drained(stream)
            stream.close()
            await until(lambda: held(directory) == SEEN)
        await until(lambda: held(directory) == {})
        async with serving(engine_of(), address, epoch=2) as (server, _):
            await until(lambda: server._ledger.has_events and directory.accuracy())
            assert held(directory) == {}
            await fleet.wait_ready(1)
            stream = fleet.open("pool/0", submit_of(prompt=PROMPT[: SIZE + 1]))
            await drained(stream)
            stream.close()
            await until(lambda: held(directory) == {"pool/0": SIZE})


async def test_an_engine_without_events_is_judged_by_what_it_was_sent() -> None:
    engine = SilentEngine()
    async with serving(engine) as (_, address), fleet_at(address) as (_, directory):
        directory.routed("pool/0", CHAIN)
        engine.say(load=Load(running=1))
        assert held(directory) == SEEN
        assert not directory.accuracy()["pool/0"].exact


@pytest.mark.parametrize(
    "updates",
    [
        [KvUpdate(5, stored=CHAIN)],
        [KvUpdate(0, removed=CHAIN)],
        [KvUpdate(1, stored=CHAIN), KvUpdate(1, stored=CHAIN)],
        [KvUpdate(1, stored=range(100_000))],
        [KvUpdate(1, True, range(100_000)), KvUpdate(2, True, range(100_000))],
    ],
)
async def test_nonsense_is_not_followed_and_costs_at_most_one_question(updates: list[KvUpdate]) -> None:
    replica = RawReplica()
    async with replica.listening() as address, fleet_at(address) as (fleet, directory):
        for seq, update in enumerate(updates * 3, 1):
            await replica.send(codec.Step(seq, kv_update=update))
        await replica.send(codec.Step(90, load=Load()))
        await until(lambda: replica.ups)
        assert held(directory) == {}
        assert directory.blocks < 1000
        assert sum(up.kv_resync for up in replica.ups) <= 1
        assert len(fleet) == 1


async def test_an_update_that_was_not_asked_for_ends_the_session() -> None:
    replica = RawReplica()
    async with replica.listening() as address:
        fleet = Fleet([spec_of(address)], "test")
        fleet.start()
        await fleet.wait_ready(1)
        await replica.send(codec.Step(1, kv_update=KvUpdate(1, stored=CHAIN)))
        await until(lambda: replica.sessions == 2)
        await fleet.aclose()
