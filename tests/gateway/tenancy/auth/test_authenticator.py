import asyncio
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.store.embedded import EmbeddedStore
from gateway.store.store_client import Store
from gateway.tenancy.auth.authenticator import FRESH_SECONDS, POLL_SECONDS, Authenticator
from gateway.tenancy.auth.key_store import PREFIX, ApiKey, KeyRequest, KeyStore
from gateway.tenancy.tenants.tenant_directory import Directory
from protos.errors import AuthenticationFailed, StoreUnavailable
from tests.authentication import LOOKS_RIGHT, Watched, bearer, bench, config_of, refusal
from tests.loops import until


async def test_a_good_key_in_every_legal_spelling(store_url: str) -> None:
    async with bench(store_url) as b:
        key, header = await b.make(models=("m",))
        secret = header.removeprefix(b"Bearer ")
        for spelling in (header, b"bearer " + secret, b"BEARER   " + secret + b" "):
            assert (await b.auth.authenticate(spelling)).key == key


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (None, "You didn't provide an API key"),
        (b"", "malformed"),
        (b"Bearer", "malformed"),
        (b"Bearer ", "malformed"),
        (b"Basic dXNlcjpwYXNz", "malformed"),
        (b"Bearer two words", "malformed"),
        (b"Bearer \xff\xfe", "malformed"),
        (b"Bearer\t" + LOOKS_RIGHT.encode(), "malformed"),
        (b"Bearer " + b"x" * 5000, "malformed"),
        (b"Bearer hello", "Incorrect API key provided: ********."),
        (b"Bearer sk-proj-" + b"A" * 40 + b"wxyz", "Incorrect API key provided: sk-proj-********wxyz."),
        (bearer(PREFIX + "A" * 42 + "!"), "Incorrect API key provided: sk-penst********AAA!."),
        (bearer(PREFIX + "A" * 42 + "\n"), "Incorrect API key provided"),
        (b"Bearer " + b"\xff" * 55, "Incorrect API key provided"),
        (bearer(PREFIX + "A" * 42), "Incorrect API key provided"),
        (bearer(PREFIX + "A" * 44), "Incorrect API key provided"),
    ],
)
async def test_what_cannot_be_a_key_is_401_without_asking_the_store(
    tmp_path: Path, header: bytes | None, says: str
) -> None:
    async with bench(f"unix://{tmp_path}/there-is-none.sock") as b:
        assert says in await refusal(b.auth, header)
        assert b.watched.reads == 0


@given(token=st.binary(min_size=1, max_size=80).filter(lambda token: b" " not in token))
async def test_no_refusal_echoes_more_than_the_ends_of_a_key(token: bytes) -> None:
    store = Watched(Store("unix:///none"))
    auth = Authenticator(KeyStore(store), Directory(store, config_of()))
    with pytest.raises((AuthenticationFailed, StoreUnavailable)) as caught:
        await auth.authenticate(b"Bearer " + token)
    shown = caught.value.message.partition("provided: ")[2]
    assert len(shown) <= len("12345678********1234.")
    assert not any(token[i : i + 9].decode("ascii", "replace") in shown for i in range(max(0, len(token) - 8)))


async def test_unknown_and_revoked_keys_are_401(store_url: str) -> None:
    async with bench(store_url) as b:
        assert await refusal(b.auth, bearer(LOOKS_RIGHT)) == "Incorrect API key provided: sk-penst********AAAA."
        key, header = await b.make()
        await b.keys.revoke(key.key_id, actor="t")
        assert await refusal(b.auth, header) == "This API key has been revoked."


async def test_answers_are_remembered_good_and_bad(store_url: str) -> None:
    async with bench(store_url) as b:
        _, header = await b.make()
        assert [await b.reads_of(header) for _ in range(2)] == [1, 1]  # nothing is fresh before a poll
        await b.auth.poll()
        # The poll has seen that nothing changed since they were read.
        assert [await b.reads_of(header) for _ in range(3)] == [0, 0, 0]
        assert [await b.reads_of(bearer(LOOKS_RIGHT)) for _ in range(3)] == [1, 0, 0]


async def test_both_memories_are_bounded_and_forget_the_oldest_use(store_url: str) -> None:
    async with bench(store_url, cache_size=2) as b:
        good = [(await b.make(f"k{number}"))[1] for number in range(3)]
        bad = [bearer(PREFIX + letter * 43) for letter in "abc"]
        await b.auth.poll()
        for headers in (good, bad):
            first, second, third = headers
            assert [await b.reads_of(h) for h in (first, second, first, third, first, second)] == [1, 1, 0, 1, 0, 1]
        # A flood of bad keys does not push out good ones.
        assert await b.reads_of(good[1]) == 0


async def test_a_revocation_counts_after_the_next_poll(store_url: str) -> None:
    async with bench(store_url) as b:
        key, header = await b.make()
        await b.auth.poll()
        await b.auth.authenticate(header)
        await b.keys.revoke(key.key_id, actor="t")
        await b.auth.poll()
        assert await refusal(b.auth, header) == "This API key has been revoked."


async def test_a_revocation_counts_within_a_second_even_without_polls(store_url: str) -> None:
    assert POLL_SECONDS < FRESH_SECONDS < 1.0
    async with bench(store_url) as b:
        key, header = await b.make()
        await b.auth.poll()
        await b.auth.authenticate(header)
        await b.keys.revoke(key.key_id, actor="t")
        b.now += FRESH_SECONDS - 0.001
        assert (await b.auth.authenticate(header)).key == key
        b.now += 0.001
        assert await refusal(b.auth, header) == "This API key has been revoked."


async def test_an_answer_read_before_a_revocation_is_not_remembered_after_it(store_url: str) -> None:
    async with bench(store_url) as b:
        key, header = await b.make()
        await b.auth.poll()
        b.watched.gate.clear()
        early = asyncio.create_task(b.auth.authenticate(header))
        await b.watched.answered.wait()
        await b.keys.revoke(key.key_id, actor="t")
        await b.auth.poll()
        late = asyncio.create_task(b.auth.authenticate(header))
        await asyncio.sleep(0.02)
        b.watched.gate.set()
        assert (await early).key == key
        with pytest.raises(AuthenticationFailed):
            await late
        await refusal(b.auth, header)
        assert b.watched.reads == 2


async def test_one_lookup_serves_all_who_ask_at_once_and_survives_one_that_leaves(store_url: str) -> None:
    async with bench(store_url) as b:
        key, header = await b.make()
        b.watched.gate.clear()
        callers = [asyncio.create_task(b.auth.authenticate(header)) for _ in range(50)]
        await asyncio.sleep(0.02)
        callers[0].cancel()
        await asyncio.sleep(0)
        b.watched.gate.set()
        assert [caller.key for caller in await asyncio.gather(*callers[1:])] == [key] * 49
        assert callers[0].cancelled()
        assert b.watched.reads == 1


async def test_closing_ends_lookups_under_way(store_url: str) -> None:
    async with bench(store_url) as b:
        b.watched.gate.clear()
        caller = asyncio.create_task(b.auth.authenticate(bearer(LOOKS_RIGHT)))
        await asyncio.sleep(0.02)
        await b.auth.aclose()
        await asyncio.wait([caller])
        assert caller.cancelled()


async def test_an_outage_is_503_for_every_key_and_never_401(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.start()

    async with bench(server.url) as b:
        key, header = await b.make()
        await b.auth.poll()
        await b.auth.authenticate(header)
        await refusal(b.auth, bearer(LOOKS_RIGHT))
        server.stop()
        with pytest.raises(StoreUnavailable):
            await b.auth.poll()
        # What was just read from the store stays true for the rest of its second.
        assert (await b.auth.authenticate(header)).key == key
        b.now += FRESH_SECONDS
        for either in (header, bearer(LOOKS_RIGHT)):
            with pytest.raises(StoreUnavailable):
                await b.auth.authenticate(either)
        server.start()
        assert (await b.auth.authenticate(header)).key == key
    server.stop()


async def test_the_poll_loop_lives_through_an_outage(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.start()
    assert server.pid is not None
    pid = server.pid

    async def served(auth: Authenticator, header: bytes) -> ApiKey | None:
        try:
            return (await auth.authenticate(header)).key
        except StoreUnavailable:
            return None

    store, now = Store(server.url, timeout=10.0), 100.0
    watched = Watched(store)
    auth = Authenticator(KeyStore(watched), Directory(watched, config_of()), clock=lambda: now)
    loop = asyncio.create_task(auth.run())
    key, secret = await KeyStore(store).create(KeyRequest(name="k"))
    header = bearer(secret)
    try:
        await until(lambda: auth._fresh_until > now)
        assert await served(auth, header) == key
        store._timeout = 0.2
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: auth._outage)
        now += FRESH_SECONDS
        assert await served(auth, header) is None
        store._timeout = 10.0
        os.kill(pid, signal.SIGCONT)
        await until(lambda: auth._fresh_until > now)
        before = watched.reads
        assert await served(auth, header) == key
        assert await served(auth, header) == key
        assert watched.reads - before <= 1
        assert not loop.done()
    finally:
        os.kill(pid, signal.SIGCONT)
        loop.cancel()
        await asyncio.wait([loop])
        await auth.aclose()
        await store.aclose()
    server.stop()
