"""How changes of keys and tenants reach workers, and what holds while the store does not answer."""

import asyncio
import contextlib
import logging
from functools import partial
from pathlib import Path

import pytest

from gateway.config.models.price import FREE
from gateway.config.tenants import Limits, Tenant
from gateway.store.embedded import EmbeddedStore
from gateway.store.lua_script import Script
from gateway.tenancy.auth.authenticator import FRESH_SECONDS, OUTAGE_SECONDS, POLL_SECONDS
from gateway.tenancy.auth.key_records import KeyChange
from gateway.tenancy.limits.plans import Plans
from gateway.tenancy.tenants.tenant_directory import Directory
from protos.errors import AuthenticationFailed, FilterFailed, KeyExpired, StoreUnavailable, TenantGone
from tests.authentication import LOOKS_RIGHT, bearer, bench, config_of, refusal
from tests.loops import until

PUT = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")
TENANTS = "penstock:{keys}:tenants"


async def test_a_caller_is_a_key_its_tenant_and_the_tenants_tier(store_url: str) -> None:
    tenants = [{"name": "filed", "tier": "gold", "limits": {"rpm": 5}}]

    async with bench(store_url, config=config_of(tenants=tenants)) as b:
        await b.registry.create_tenant(Tenant(name="acme", tier="silver"), "t")
        for tenant, tier, rank in (("filed", "gold", 0), ("acme", "silver", 1), ("default", "bronze", 2)):
            key, header = await b.make(tenant, tenant=tenant)
            caller = await b.auth.authenticate(header)
            assert (caller.key, caller.tenant.name, caller.tier.name, caller.rank) == (key, tenant, tier, rank)
        assert (await b.auth.authenticate((await b.make("x", tenant="filed"))[1])).tenant.limits.rpm == 5


async def test_a_subscription_ends_with_the_key_and_the_tenant_that_it_is_of(store_url: str) -> None:
    plans = Plans("m", FREE)
    async with bench(store_url) as b:
        await b.registry.create_tenant(Tenant(name="acme", tier="silver"), "t")
        key, header = await b.make("k", tenant="acme")

        async def told() -> tuple[bool, int, int | None]:
            b.now += POLL_SECONDS
            await b.auth.poll()
            for _ in range(2):  # the second time of what is remembered
                subscription = plans.subscription(await b.auth.authenticate(header))
            return subscription.plan.metered, subscription.rank, subscription.bounds.max_output

        assert await told() == (False, 1, None)
        await b.registry.update_key(key.key_id, KeyChange(limits=Limits(rpm=3)), "t")
        assert await told() == (True, 1, None)
        await b.registry.replace_tenant(Tenant(name="acme", tier="gold", limits=Limits(max_output_tokens=9)), "t")
        assert await told() == (True, 0, 9)


async def test_two_workers_see_every_change_at_their_next_poll(store_url: str) -> None:
    async with bench(store_url) as b:
        await b.registry.create_tenant(Tenant(name="acme"), "t")
        workers = [b.auth, b.another()]
        revoked, revoked_header = await b.make("revoked", tenant="acme")
        kept, kept_header = await b.make("kept", tenant="acme")

        async def poll() -> None:
            b.now += POLL_SECONDS
            for worker in workers:
                await worker.poll()

        await poll()
        for worker in workers:
            assert (await worker.authenticate(kept_header)).key == kept
            assert (await worker.authenticate(revoked_header)).key == revoked

        await b.registry.revoke_key(revoked.key_id, "t")
        await poll()
        for worker in workers:
            assert await refusal(worker, revoked_header) == "This API key has been revoked."

        await b.registry.update_key(kept.key_id, KeyChange(limits=Limits(rpm=3)), "t")
        await b.registry.replace_tenant(Tenant(name="acme", tier="gold", limits=Limits(tpm=9)), "t")
        await poll()
        for worker in workers:
            caller = await worker.authenticate(kept_header)
            assert (caller.key.limits.rpm, caller.tenant.limits.tpm, caller.tier.name) == (3, 9, "gold")

        await b.keys.edit(kept.key_id, lambda key, now: KeyChange(expires_at=now).applied_to(key), actor="t")
        await b.registry.delete_tenant("acme", "t")
        await poll()
        for worker in workers:
            with pytest.raises(TenantGone, match="The tenant 'acme' of this API key no longer exists") as caught:
                await worker.authenticate(kept_header)
            assert (caught.value.status, caught.value.code) == (403, "tenant_gone")

        await b.registry.create_tenant(Tenant(name="acme"), "t")
        await b.registry.update_key(kept.key_id, KeyChange(expires_at=None), "t")
        await poll()
        for worker in workers:
            assert (await worker.authenticate(kept_header)).tenant == Tenant(name="acme")


async def test_a_poll_without_a_change_is_one_round_trip(store_url: str) -> None:
    async with bench(store_url) as b:
        await b.auth.poll()
        before = b.watched.calls
        for _ in range(5):
            await b.auth.poll()
        assert b.watched.calls - before == 5


async def test_a_lookup_that_is_ahead_of_the_poll_knows_the_newest_tenants(store_url: str) -> None:
    async with bench(store_url) as b:
        await b.auth.poll()
        await b.registry.create_tenant(Tenant(name="new"), "t")
        key, header = await b.make(tenant="new")
        assert (await b.auth.authenticate(header)).key == key
        assert await b.reads_of(header) == 0


async def test_an_expired_key_is_refused_by_the_stores_clock_and_not_the_workers(store_url: str) -> None:
    async with bench(store_url) as b:
        ahead = 86_400.0
        now = (await b.keys.version())[1]
        b.watched.ahead = ahead
        key, header = await b.make(expires_at=now + ahead + 30)
        await b.auth.poll()
        assert (await b.auth.authenticate(header)).key == key
        # The store's clock goes on between polls, and corrects with each.
        b.now += FRESH_SECONDS - 0.01
        assert (await b.auth.authenticate(header)).key == key
        b.watched.ahead = ahead + 29.5
        await b.auth.poll()
        assert await b.reads_of(header) == 0
        b.now += 0.6
        with pytest.raises(KeyExpired) as caught:
            await b.auth.authenticate(header)
        assert (caught.value.status, caught.value.code) == (401, "invalid_api_key")
        assert caught.value.message == "This API key has expired."


async def test_a_key_that_expired_long_ago_is_refused_at_its_first_use(store_url: str) -> None:
    async with bench(store_url) as b:
        _, header = await b.make(expires_at=1.0)
        for _ in range(2):
            assert await refusal(b.auth, header) == "This API key has expired."
            await b.auth.poll()
        await b.registry.update_key((await b.keys.list_keys())[0].key_id, KeyChange(expires_at=None), "t")
        await b.auth.poll()
        assert (await b.auth.authenticate(header)).key.expires_at is None


async def test_during_a_rotation_both_keys_work_until_the_grace_is_over(store_url: str) -> None:
    async with bench(store_url) as b:
        old, old_header = await b.make()
        new, secret = await b.registry.rotate_key(old.key_id, 3600.0, "t")
        await b.auth.poll()
        assert (await b.auth.authenticate(old_header)).key.key_id == old.key_id
        assert (await b.auth.authenticate(bearer(secret))).key == new
        b.watched.ahead = 3600.0
        await b.auth.poll()
        assert await refusal(b.auth, old_header) == "This API key has expired."
        assert (await b.auth.authenticate(bearer(secret))).key == new


async def test_a_rotation_without_grace_ends_the_old_key_at_once(store_url: str) -> None:
    async with bench(store_url) as b:
        old, header = await b.make()
        await b.registry.rotate_key(old.key_id, 0.0, "t")
        assert await refusal(b.auth, header) == "This API key has expired."


OPEN = [{"name": "open", "on_store_failure": "fail_open"}, {"name": "closed", "on_store_failure": "fail_closed"}]


async def test_through_an_outage_only_keys_of_open_tenants_go_on(
    state_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = EmbeddedStore(state_dir)
    server.start()

    caplog.set_level(logging.WARNING)

    async with bench(server.url, config=config_of(tenants=OPEN)) as b:
        now = (await b.keys.version())[1]
        known, known_header = await b.make("known", tenant="open")
        _, ending_header = await b.make("ending", tenant="open", expires_at=now + 60)
        _, unseen_header = await b.make("unseen", tenant="open")
        _, closed_header = await b.make("closed", tenant="closed")
        await b.auth.poll()
        for header in (known_header, ending_header, closed_header):
            await b.auth.authenticate(header)
        await refusal(b.auth, bearer(LOOKS_RIGHT))
        server.stop()
        for _ in range(3):
            b.now += FRESH_SECONDS
            # With the outage known to the poll, or still to be found out.
            assert (await b.auth.authenticate(known_header)).key == known
            assert (await b.auth.authenticate(ending_header)).key.name == "ending"
            for header in (unseen_header, closed_header, bearer(LOOKS_RIGHT)):
                with pytest.raises(StoreUnavailable):
                    await b.auth.authenticate(header)
            with pytest.raises(StoreUnavailable):
                await b.auth.poll()
        calls = b.watched.calls
        assert (await b.auth.authenticate(known_header)).key == known
        assert b.watched.calls == calls, "a request waits for a store that is known to be gone"
        b.now += 60
        assert await refusal(b.auth, ending_header) == "This API key has expired."
        b.now = 100.0 + OUTAGE_SECONDS - 0.01
        assert (await b.auth.authenticate(known_header)).key == known
        b.now += 0.01
        with pytest.raises(StoreUnavailable):
            await b.auth.authenticate(known_header)
        server.start()
        await b.auth.poll()
        assert (await b.auth.authenticate(closed_header)).key.name == "closed"
    server.stop()
    said = [record.getMessage() for record in caplog.records]
    assert [text.partition(";")[0] for text in said] == [
        "keys and tenants cannot be read",
        "keys and tenants can be read again",
    ]


async def test_a_change_during_an_outage_counts_when_it_is_over(store_url: str) -> None:
    async with bench(store_url, config=config_of(tenants=OPEN)) as b:
        key, header = await b.make(tenant="open")
        await b.auth.poll()
        await b.auth.authenticate(header)
        b.watched.silent = {"run", "hgetall"}
        await b.registry.revoke_key(key.key_id, "t")
        b.now += FRESH_SECONDS
        assert (await b.auth.authenticate(header)).key == key
        b.watched.silent = set()
        await b.auth.poll()
        assert await refusal(b.auth, header) == "This API key has been revoked."


async def test_many_changes_do_not_make_an_outage_forget_a_key(store_url: str) -> None:
    """Nor do lookups of unknown keys, each of which may be the first to see a change."""

    async with bench(store_url, config=config_of(tenants=OPEN)) as b:
        stays, header = await b.make("stays", tenant="open")
        await b.auth.poll()
        await b.auth.authenticate(header)
        for number in range(3):
            await b.make(f"other{number}")
            await refusal(b.auth, bearer(LOOKS_RIGHT[:-1] + str(number)))
        await b.auth.poll()
        b.watched.silent = {"run", "hgetall"}
        b.now += FRESH_SECONDS
        assert (await b.auth.authenticate(header)).key == stays


async def test_a_change_does_not_make_an_outage_forget_the_other_keys(store_url: str) -> None:
    async with bench(store_url, config=config_of(tenants=OPEN)) as b:
        stays, header = await b.make("stays", tenant="open")
        goes, gone_header = await b.make("goes", tenant="open")
        _, closed_header = await b.make("closed", tenant="closed")
        await b.auth.poll()
        for each in (header, gone_header, closed_header):
            await b.auth.authenticate(each)
        await b.registry.revoke_key(goes.key_id, "t")
        await b.auth.poll()
        assert await b.reads_of(closed_header) == 1
        b.watched.silent = {"run", "hgetall"}
        b.now += FRESH_SECONDS
        assert (await b.auth.authenticate(header)).key == stays
        with pytest.raises(StoreUnavailable):
            await b.auth.authenticate(gone_header)


async def test_tenants_that_cannot_be_read_leave_everything_as_it_was(store_url: str) -> None:
    async with bench(store_url, config=config_of(tenants=OPEN)) as b:
        key, header = await b.make(tenant="open")
        await b.auth.poll()
        await b.auth.authenticate(header)
        b.watched.silent = {"hgetall"}
        await b.registry.create_tenant(Tenant(name="acme"), "t")
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await b.auth.poll()
        b.now += FRESH_SECONDS
        assert (await b.auth.authenticate(header)).key == key
        b.watched.silent = set()
        await b.auth.poll()
        assert await b.reads_of(header) == 0


async def test_one_unreadable_tenant_is_503_for_its_keys_alone(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(store_url) as b:
        await b.registry.create_tenant(Tenant(name="broken"), "t")
        _, broken = await b.make("a", tenant="broken")
        key, header = await b.make("b")
        await b.watched.store.run(PUT, [TENANTS], ["broken", '{"name": "broken", "limits": {"rpm": "many"}}'])
        await b.auth.poll()
        assert (await b.auth.authenticate(header)).key == key
        with pytest.raises(StoreUnavailable):
            await b.auth.authenticate(broken)
    assert "the tenant broken cannot be read" in caplog.text


async def test_what_the_file_overrules_is_said_once(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with bench(store_url, config=config_of(tenants=[{"name": "acme", "tier": "gold"}])) as b:
        stored = '{"name": "acme", "tier": "bronze"}'
        await b.watched.store.run(PUT, [TENANTS], ["acme", stored, "other", '{"name": "other", "tier": "platinum"}'])
        await b.watched.store.run(PUT, [TENANTS], ["other", '{"name": "other", "tier": "platinum"}'])
        _, filed = await b.make("a", tenant="acme")
        await b.auth.poll()
        assert (await b.auth.authenticate(filed)).tier.name == "gold"
        _, other = await b.make("b", tenant="other")
        await b.auth.poll()
        caller = await b.auth.authenticate(other)
        assert (caller.tier.name, caller.rank) == ("bronze", 2)
    assert [record.getMessage() for record in caplog.records] == [
        "the tenant acme is in the configuration file and in the store; the file's counts",
        "the tenant other has the tier platinum, which the configuration file does not; it gets the last one",
    ]


async def test_a_tenant_whose_safety_policy_is_gone_is_served_by_no_other_rules(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    headers: dict[str, bytes] = {}
    async with bench(store_url, config=config_of(safety={"policies": [{"name": "strict", "input": ["pii"]}]})) as b:
        await b.registry.create_tenant(Tenant(name="acme", safety="strict"), "t")
        _, headers["acme"] = await b.make("a", tenant="acme")
        assert (await b.auth.authenticate(headers["acme"])).tenant.safety == "strict"

    async with bench(store_url) as b:
        for _ in range(2):
            with pytest.raises(FilterFailed):
                await b.auth.authenticate(headers["acme"])
            await b.auth.poll()
    assert [record.getMessage() for record in caplog.records] == [
        "the tenant acme has the safety policy strict, which the configuration file does not; its requests are refused",
    ]


async def test_lookups_and_polls_at_once_never_remember_what_was_true_before_a_change(store_url: str) -> None:
    async with bench(store_url) as b:
        made = [await b.make(f"k{number}") for number in range(8)]
        stop = asyncio.Event()

        async def poll() -> None:
            while not stop.is_set():
                await b.auth.poll()

        def seen(version: bytes) -> bool:
            return b.auth._version == version

        async def ask(header: bytes) -> None:
            while not stop.is_set():
                with contextlib.suppress(AuthenticationFailed):
                    await b.auth.authenticate(header)
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(poll()), *(asyncio.create_task(ask(header)) for _, header in made)]
        for key, header in made:
            await b.registry.update_key(key.key_id, KeyChange(metadata={"a": "b"}), "t")
            await b.registry.revoke_key(key.key_id, "t")
            version = (await b.keys.version())[0]
            await until(partial(seen, version))
            assert await refusal(b.auth, header) == "This API key has been revoked."
        stop.set()
        await asyncio.gather(*tasks)


async def test_another_configuration_changes_what_remembered_keys_are(store_url: str) -> None:
    """Without the store being asked: a change of the file counts during an outage, too."""
    tenants = [{"name": "filed", "tier": "gold"}, {"name": "gone"}, {"name": "open", "on_store_failure": "fail_open"}]
    async with bench(store_url, config=config_of(tenants=tenants)) as b:
        await b.registry.create_tenant(Tenant(name="acme", tier="silver"), "t")
        headers = {name: (await b.make(name, tenant=name))[1] for name in ("filed", "gone", "open", "acme")}
        await b.auth.poll()
        before = {name: await b.auth.authenticate(header) for name, header in headers.items()}
        Plans("m", FREE).subscription(before["acme"])
        reads = b.watched.reads
        changed = config_of(tenants=[{"name": "filed", "tier": "bronze", "limits": {"rpm": 7}}, tenants[2]])
        b.auth.use(Directory(b.watched, changed))
        after = {name: await b.auth.authenticate(headers[name]) for name in ("filed", "open", "acme")}
        assert b.watched.reads == reads
        assert (after["filed"].tier.name, after["filed"].tenant.limits.rpm) == ("bronze", 7)
        assert after["acme"] is before["acme"]
        assert not after["acme"].subscriptions, "they were of the models of before"
        with pytest.raises(TenantGone):
            await b.auth.authenticate(headers["gone"])
        b.watched.silent = {"run", "hgetall"}
        b.now += OUTAGE_SECONDS / 2
        with contextlib.suppress(StoreUnavailable):
            await b.auth.poll()
        assert (await b.auth.authenticate(headers["open"])).tenant.name == "open"


async def test_a_change_in_the_store_is_not_lost_between_two_configurations(store_url: str) -> None:
    """The directory of before is being read anew when another one takes its place."""
    async with bench(store_url) as b:
        await b.registry.create_tenant(Tenant(name="acme", tier="silver"), "t")
        _, header = await b.make("k", tenant="acme")
        await b.auth.poll()
        await b.registry.replace_tenant(Tenant(name="acme", tier="gold"), "t")
        other = Directory(b.watched, b.config)
        read = b.watched.hgetall

        async def slow(key: str) -> dict[bytes, bytes]:
            found = await read(key)
            b.auth.use(other)
            return found

        b.watched.hgetall = slow  # type: ignore[method-assign]
        b.now += POLL_SECONDS
        await b.auth.poll()
        assert (await b.auth.authenticate(header)).tier.name == "gold"
