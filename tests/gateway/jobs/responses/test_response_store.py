import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
import redis

from gateway.config.responses import Responses
from gateway.jobs.responses import response_store as store_module
from gateway.jobs.responses.conversation_store import Conversation, ConversationStore
from gateway.jobs.responses.packing import pack, unpack
from gateway.jobs.responses.response_space import ResponseSpace
from gateway.jobs.responses.response_store import Addition, Followed, NewItem, ResponseStore
from gateway.store.embedded import EmbeddedStore
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.errors import (
    ConversationNotFound,
    InvalidRequest,
    ItemNotFound,
    PreviousResponseNotFound,
    ResponseNotFound,
    StoreUnavailable,
)

KEYS = Script("return redis.call('KEYS', ARGV[1])")
PTTL = Script("return redis.call('PTTL', KEYS[1])")
BASE = "penstock:{t:acme}:responses"


class Counting:
    """A store that counts its trips, and may be away."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.trips = 0
        self.away = False

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        self.trips += 1
        if self.away:
            raise StoreUnavailable
        return await self.store.run(script, keys, arguments)

    async def ping(self) -> None:
        self.trips += 1
        if self.away:
            raise StoreUnavailable


class Both:
    def __init__(self, storage: Counting, bounds: Responses) -> None:
        self.storage = storage
        space = ResponseSpace(storage, bounds)
        self.responses, self.conversations = ResponseStore(space), ConversationStore(space)

    async def put(self, name: str, previous: str = "", given: bytes = b"[]", **more: Any) -> None:
        await self.responses.put("acme", name, "completed", previous, given, b'{"name":"%b"}' % name.encode(), **more)

    async def keys(self) -> list[str]:
        found: Any = await self.storage.store.run(KEYS, [BASE], [BASE + "*"])
        return sorted(key.decode().removeprefix(BASE) for key in found)


@contextlib.asynccontextmanager
async def opened(url: str, **bounds: Any) -> AsyncIterator[Both]:
    store = Store(url, timeout=10.0)
    try:
        yield Both(Counting(store), msgspec.structs.replace(Responses(), **bounds))
    finally:
        await store.aclose()


async def read(found: Followed) -> list[bytes]:
    return [await unpack(part) for part in found.parts]


def item(name: str, text: bytes = b"{}") -> NewItem:
    return NewItem(name, text)


async def test_a_response_is_kept_in_one_trip_and_read_in_one(any_store_url: str) -> None:
    async with opened(any_store_url) as both:
        await both.put("a", given=b'[{"x":1}]')
        await both.put("b", "a", given=secrets.token_hex(5000).encode())
        assert both.storage.trips == 2
        kept = await both.responses.get("acme", "a")
        assert (kept.status, kept.goes_on, kept.background, kept.response) == (
            "completed",
            False,
            False,
            b'{"name":"a"}',
        )
        assert not kept.abandoned
        both.storage.trips = 0
        first, second = await both.responses.chain("acme", "b")
        assert both.storage.trips == 1
        assert (first.id, first.input, first.response) == ("a", b'[{"x":1}]', b'{"name":"a"}')
        assert (second.id, len(second.input), second.before) == ("b", 10_000, ())


async def test_other_tenants_responses_are_not_there(store_url: str) -> None:
    async with opened(store_url) as both:
        await both.put("a")
        responses = both.responses
        with pytest.raises(ResponseNotFound):
            await responses.get("other", "a")
        with pytest.raises(ResponseNotFound):
            await responses.delete("other", "a")
        with pytest.raises(ResponseNotFound):
            await responses.follow("other", "a", 0)
        with pytest.raises(PreviousResponseNotFound) as error:
            await responses.chain("other", "a")
        assert (error.value.status, error.value.code, error.value.param) == (
            400,
            "previous_response_not_found",
            "previous_response_id",
        )
        assert not await responses.cancel("other", "a", b"{}")
        await both.conversations.create("acme", Conversation("c", 1), [item("i")])
        for call in (
            both.conversations.get("other", "c"),
            both.conversations.items("other", "c"),
            both.conversations.add("other", "c", [item("j")]),
            both.conversations.page("other", "c", "asc", 5, ""),
            both.conversations.item("other", "c", "i"),
            both.conversations.delete_item("other", "c", "i"),
            both.conversations.delete("other", "c"),
            both.conversations.change("other", Conversation("c", 1)),
        ):
            with pytest.raises(ConversationNotFound):
                await call


async def test_what_is_deleted_breaks_the_chain_and_leaves_nothing(any_store_url: str) -> None:
    async with opened(any_store_url) as both:
        await both.put("a")
        await both.put("b", "a")
        await both.responses.delete("acme", "a")
        with pytest.raises(PreviousResponseNotFound, match="'a'"):
            await both.responses.chain("acme", "b")
        with pytest.raises(ResponseNotFound):
            await both.responses.delete("acme", "a")
        await both.responses.delete("acme", "b")
        assert await both.keys() == [":sizes"]


async def test_a_chain_has_bounds(store_url: str) -> None:
    async with opened(store_url, max_turns=2, max_context_bytes=4096) as both:
        await both.put("a")
        for name, previous in (("b", "a"), ("c", "b")):
            await both.put(name, previous)
        assert len(await both.responses.chain("acme", "b")) == 2
        with pytest.raises(InvalidRequest, match="2 responses"):
            await both.responses.chain("acme", "c")
        await both.put("d", given=secrets.token_bytes(5000).hex().encode())
        with pytest.raises(InvalidRequest):
            await both.responses.chain("acme", "d")
        # However little room it takes.
        await both.put("e", given=b"x" * 5000)
        with pytest.raises(InvalidRequest):
            await both.responses.chain("acme", "e")


async def test_use_prolongs_life(store_url: str) -> None:
    async with opened(store_url, ttl_seconds=6000.0) as both:
        store = both.storage.store
        await both.put("a")
        await both.put("b", "a")
        for key in (f"{BASE}:a", f"{BASE}:index", f"{BASE}:sizes"):
            assert 5_900_000 < int(str(await store.run(PTTL, [key], []))) <= 6_000_000
        await both.conversations.create("acme", Conversation("c", 7), [item("i")])
        await both.put("d", "b", addition=Addition("c", [item("j")]))
        # Also the conversation that a response began with, and what tells how much there is of all.
        used = [f"{BASE}:{name}" for name in ("a", "c", "c:items", "c:order", "index", "sizes")]
        for key in used:
            await store.run(Script("return redis.call('PEXPIRE', KEYS[1], 5000)"), [key], [])
        await both.responses.chain("acme", "d")
        for key in used:
            assert int(str(await store.run(PTTL, [key], []))) > 5_900_000


async def test_a_tenant_has_a_bound_and_the_oldest_go(store_url: str) -> None:
    async with opened(store_url, max_tenant_bytes=1 << 20) as both:
        text = secrets.token_bytes(100_000).hex().encode()
        for number in range(30):
            await both.put(f"r{number}", given=text)
            await asyncio.sleep(0.002)
            if number > 14:
                await both.responses.chain("acme", "r14")
        left = [number for number in range(30) if f":r{number}" in await both.keys()]
        # A hundred thousand random bytes take that many, however they are written; the one that is used stays.
        assert left[0] == 14
        assert left[1:] == list(range(left[1], 30))
        assert 8 <= len(left) <= 11


async def test_many_small_ones_are_bounded_too(store_url: str) -> None:
    async with opened(store_url, max_tenant_bytes=4096) as both:
        for number in range(20):
            await both.conversations.create("acme", Conversation(f"c{number}", 7), [])
        left = [key for key in await both.keys() if key.startswith(":c")]
        assert 0 < len(left) < 8
        assert ":c19" in left


async def test_where_the_store_is_nearly_full_whoever_adds_gives_half(own_store: EmbeddedStore) -> None:
    async with opened(own_store.url) as both:
        for number in range(10):
            await both.put(f"r{number}")
        assert len([key for key in await both.keys() if key.startswith(":r")]) == 10
        with redis.Redis.from_url(own_store.url) as server:
            info: Any = server.info("memory")
            server.config_set("maxmemory", int(info["used_memory"] * 1.25))
            await both.put("new")
            left = [key for key in await both.keys() if key.startswith((":r", ":n"))]
            assert ":new" in left
            assert 3 <= len(left) <= 6
            server.config_set("maxmemory", int(info["used_memory"] * 4))
            await both.put("more")
            assert len([key for key in await both.keys() if key.startswith((":r", ":n", ":m"))]) == len(left) + 1


async def test_a_background_response_goes_on_until_its_end(any_store_url: str) -> None:
    async with opened(any_store_url) as both:
        responses = both.responses
        await responses.put("acme", "a", "queued", "", b"[]", b'{"queued":1}', lease=True)
        kept = await responses.get("acme", "a")
        assert (kept.status, kept.goes_on, kept.background, kept.abandoned) == ("queued", True, True, False)
        assert await responses.progress("acme", "a", b"one") is None
        assert await responses.progress("acme", "a", b"") is None
        assert await responses.progress("acme", "a", b"two") is None
        found = await responses.follow("acme", "a", 0)
        assert (found.status, found.goes_on, await read(found)) == ("in_progress", True, [b"one", b"two"])
        assert await read(await responses.follow("acme", "a", 1)) == [b"two"]
        assert await responses.finish("acme", "a", "completed", b'{"done":1}', b"three", None)
        found = await responses.follow("acme", "a", 2)
        assert (found.status, found.goes_on, found.abandoned) == ("completed", False, False)
        assert await read(found) == [b"three"]
        assert (await responses.get("acme", "a")).response == b'{"done":1}'
        # What has ended stays as it is.
        assert not await responses.finish("acme", "a", "failed", b"{}", b"", None)
        assert not await responses.cancel("acme", "a", b"{}")
        assert await responses.progress("acme", "a", b"four") == "completed"
        await responses.delete("acme", "a")
        assert await both.keys() == [":sizes"]
        assert await responses.progress("acme", "a", b"") == "gone"


async def test_a_cancelled_response_stays_so(store_url: str) -> None:
    async with opened(store_url) as both:
        responses = both.responses
        await responses.put("acme", "a", "queued", "", b"[]", b"{}", lease=True)
        assert await responses.progress("acme", "a", b"events") is None
        assert await responses.cancel("acme", "a", b'{"cancelled":1}')
        assert await responses.progress("acme", "a", b"more") == "cancelled"
        # Events that it had do not stay for as long as the response.
        left = await both.storage.store.run(PTTL, [f"{BASE}:a:events"], [])
        assert 0 < int(str(left)) <= store_module.EVENTS_SECONDS * 1000
        assert not await responses.finish("acme", "a", "completed", b"{}", b"", None)
        kept = await responses.get("acme", "a")
        assert (kept.status, kept.goes_on, kept.response) == ("cancelled", False, b'{"cancelled":1}')


async def test_what_no_worker_is_at_has_failed_for_good(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "LEASE_SECONDS", 0.02)
    async with opened(store_url) as both:
        responses = both.responses
        await responses.put("acme", "a", "queued", "", b"[]", b"{}", lease=True)
        await asyncio.sleep(0.03)
        kept = await responses.get("acme", "a")
        assert kept.abandoned
        assert await responses.progress("acme", "a", b"") == "lapsed"
        assert not await responses.finish("acme", "a", "completed", b"{}", b"", None)
        assert (await responses.follow("acme", "a", 0)).abandoned


async def test_events_have_a_bound_and_the_last_ones_are_always_there(store_url: str) -> None:
    async with opened(store_url, max_bytes=4096) as both:
        responses = both.responses
        await responses.put("acme", "a", "queued", "", b"[]", b"{}", lease=True)
        assert await responses.progress("acme", "a", b"first") is None
        assert await responses.progress("acme", "a", secrets.token_bytes(5000)) is None
        # Nothing follows a gap but the end.
        assert await responses.progress("acme", "a", b"more") is None
        assert await responses.finish("acme", "a", "completed", b"{}", b"last", None)
        assert await read(await responses.follow("acme", "a", 0)) == [b"first", b"last"]


async def test_a_response_adds_to_its_conversation_in_the_same_trip(any_store_url: str) -> None:
    async with opened(any_store_url) as both:
        conversations = both.conversations
        await conversations.create("acme", Conversation("c", 7, {"a": "b"}), [item("i1", b"1")])
        both.storage.trips = 0
        await both.put("a", addition=Addition("c", [item("i2", b"2"), item("i3", b"3")]))
        assert both.storage.trips == 1
        assert await conversations.items("acme", "c") == [b"1", b"2", b"3"]
        await both.put("b", addition=Addition("c", [item("i4", b"4")]))
        # What follows a response of a conversation knows what was said in it before.
        (turn,) = await both.responses.chain("acme", "b")
        assert turn.before == (b"1", b"2", b"3")
        # A conversation that is gone gets nothing, and the response is kept.
        await conversations.delete("acme", "c")
        await both.put("d", addition=Addition("c", [item("i5", b"5")]))
        assert (await both.responses.chain("acme", "d"))[0].before == ()
        with pytest.raises(ConversationNotFound):
            await conversations.get("acme", "c")
        # What began with its items is not gone on from without them.
        with pytest.raises(PreviousResponseNotFound):
            await both.responses.chain("acme", "b")


async def test_items_of_a_conversation_in_pages(any_store_url: str) -> None:
    async with opened(any_store_url) as both:
        conversations = both.conversations
        await conversations.create("acme", Conversation("c", 7), [])
        await conversations.add("acme", "c", [item(f"i{n}", b"%d" % n) for n in range(5)])
        page = conversations.page
        assert await page("acme", "c", "asc", 2, "") == ([b"0", b"1"], True)
        assert await page("acme", "c", "asc", 9, "i1") == ([b"2", b"3", b"4"], False)
        assert await page("acme", "c", "desc", 2, "") == ([b"4", b"3"], True)
        assert await page("acme", "c", "desc", 2, "i1") == ([b"0"], False)
        with pytest.raises(ItemNotFound):
            await page("acme", "c", "asc", 2, "i9")
        assert await conversations.item("acme", "c", "i3") == b"3"
        assert (await conversations.delete_item("acme", "c", "i3")).id == "c"
        with pytest.raises(ItemNotFound):
            await conversations.item("acme", "c", "i3")
        with pytest.raises(ItemNotFound):
            await conversations.delete_item("acme", "c", "i3")
        assert await page("acme", "c", "asc", 9, "i1") == ([b"2", b"4"], False)
        await conversations.change("acme", Conversation("c", 7, {"x": "y"}))
        assert (await conversations.get("acme", "c")).metadata == {"x": "y"}
        await conversations.delete("acme", "c")
        assert await both.keys() == [":sizes"]


async def test_a_conversation_has_bounds(store_url: str) -> None:
    async with opened(store_url, max_items=20, max_context_bytes=4096) as both:
        conversations = both.conversations
        await conversations.create("acme", Conversation("c", 7), [item(f"i{n}") for n in range(19)])
        with pytest.raises(InvalidRequest, match="20 items"):
            await conversations.add("acme", "c", [item("j1"), item("j2")])
        await conversations.add("acme", "c", [item("j1")])
        with pytest.raises(InvalidRequest, match="20 items"):
            await conversations.items("acme", "c")
        for name, text in (("d", secrets.token_hex(5000).encode()), ("e", b"x" * 5000)):
            await conversations.create("acme", Conversation(name, 7), [item("i", text), item("j", text), item("k")])
            with pytest.raises(InvalidRequest, match="longer"):
                await conversations.items("acme", name)
            # A page is shorter than was asked for, and never empty.
            assert await conversations.page("acme", name, "asc", 5, "") == ([text], True)
            assert await conversations.page("acme", name, "asc", 5, "i") == ([text], True)
            assert await conversations.page("acme", name, "asc", 5, "j") == ([b"{}"], False)
        with pytest.raises(InvalidRequest, match="4096 bytes"):
            await conversations.add("acme", "d", [item("l")])


async def test_a_store_that_was_away_is_asked_before_work_is_done(store_url: str) -> None:
    async with opened(store_url) as both:
        responses, storage = both.responses, both.storage
        await responses.require()
        assert storage.trips == 0
        storage.away = True
        with pytest.raises(StoreUnavailable):
            await both.put("a")
        with pytest.raises(StoreUnavailable):
            await responses.require()
        storage.away = False
        await responses.require()
        storage.trips = 0
        await responses.require()
        assert storage.trips == 0


async def test_what_cannot_be_read_is_the_stores_fault(store_url: str) -> None:
    async with opened(store_url) as both:
        await both.put("a")
        spoil = Script("redis.call('HSET', KEYS[1], 'response', ARGV[1])")
        whole = await pack(b"x" * 5000)
        for text in (b"zjunkjunk", b"junk", b"", whole[:-9], b"y" + whole[1:], whole[:1] + whole[2:]):
            await both.storage.store.run(spoil, [f"{BASE}:a"], [text])
            with pytest.raises(StoreUnavailable):
                await both.responses.get("acme", "a")
