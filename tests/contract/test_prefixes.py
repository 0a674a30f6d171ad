"""From an engine's KV cache to a lookup in the gateway, without the wire: both ends mean the same blocks."""

from hypothesis import given
from hypothesis import strategies as st

from protos.types import KvEvent
from replicas.kv_cache import BlockTable, KvCache, extend_chain
from replicas.kv_events import KvFeed, KvLedger
from routing.prefix.prefix_directory import PrefixDirectory

SIZE, BLOCKS = 2, 6
SALTS = ("", "tenant")
PROMPTS = st.lists(st.integers(0, 1), max_size=14)
MOVES = st.one_of(
    st.tuples(st.just("open"), PROMPTS, st.sampled_from(SALTS)),
    st.tuples(st.just("close"), st.integers(0, 9)),
    st.sampled_from([("lose an event",), ("worker away",), ("worker back",), ("lose an update",)]),
)


class Replica:
    """A cache, its ledger, and the feed of one worker's directory."""

    def __init__(self, name: str, directory: PrefixDirectory) -> None:
        self.name, self._directory = name, directory
        self.cache = KvCache(BLOCKS, SIZE)
        self._ledger = KvLedger(SIZE, BLOCKS)
        self._feed: KvFeed | None = None
        self._tables: list[BlockTable] = []
        self._events: list[KvEvent] = []
        self.in_sync = True  # whether the engine's events have all arrived since blocks were there
        self.join()

    def join(self) -> None:
        self.leave()
        self._directory.joined(self.name, SIZE, BLOCKS, exact=True)
        self._feed = self._ledger.subscribe()

    def leave(self) -> None:
        if self._feed is not None:
            self._ledger.unsubscribe(self._feed)
            self._directory.left(self.name)
            self._feed = None

    def open(self, ids: list[int], salt: str) -> None:
        chain: list[int] = []
        extend_chain(chain, ids, SIZE, salt)
        matched, idle = self.cache.match(chain, len(chain))
        need = len(chain) + 1 - matched
        if need <= self.cache.available - idle:
            table = self.cache.open(chain[:matched])
            assert self.cache.grow(table, need)
            self.cache.store(table, chain, ids, salt)
            self._tables.append(table)

    def close(self, which: int) -> None:
        if self._tables:
            self.cache.release(self._tables.pop(which % len(self._tables)))

    def tell(self, lose_event: bool, lose_update: bool) -> None:
        events = self.cache.drain_events()
        if lose_event and events:
            del events[0]
            self.in_sync = False
        self._ledger.take(events)
        if self._feed is None:
            return
        if lose_update:
            self._feed.take()
        while (update := self._feed.take()) is not None:
            if not self._directory.updated(self.name, update):
                self._feed.restart()

    def holds(self, ids: list[int], salt: str) -> int:
        chain: list[int] = []
        extend_chain(chain, ids, SIZE, salt)
        return self.cache.match(chain, len(chain))[0]


@given(st.lists(st.tuples(st.integers(0, 1), MOVES), max_size=40), st.lists(PROMPTS, min_size=1, max_size=3))
def test_the_directory_says_what_the_caches_would_find(
    script: list[tuple[int, tuple[object, ...]]], probes: list[list[int]]
) -> None:
    directory = PrefixDirectory(clock=lambda: 0.0)
    replicas = [Replica("a", directory), Replica("b", directory)]
    for which, move in script:
        replica, lose_event, lose_update = replicas[which], False, False
        match move:
            case ("open", list(ids), str(salt)):
                replica.open(ids, salt)
                probes = [*probes[-4:], ids]
            case ("close", int(number)):
                replica.close(number)
            case ("worker away",):
                replica.leave()
            case ("worker back",):
                replica.join()
            case ("lose an event",):
                lose_event = True
            case _:
                lose_update = True
        for each in replicas:
            each.tell(lose_event and each is replica, lose_update and each is replica)
        for probe in probes:
            for salt in SALTS:
                # A token more than its full blocks, so that the last one is not held back.
                full = len(probe) // SIZE * SIZE
                cached = directory.look_up([*probe[:full], 7], salt).cached
                for each in replicas:
                    found = cached.get(each.name, 0)
                    if each._feed is None:
                        assert found == 0
                    elif each.in_sync:
                        assert found == each.holds(probe, salt) * SIZE
                    else:  # what it had before the loss cannot be known, but nothing is made up
                        assert found <= each.holds(probe, salt) * SIZE
