"""Every admin change is in the journal, once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import redis

from gateway.config.tenants import Tenant
from gateway.telemetry.admin_changes import AdminChanges
from gateway.tenancy.tenants.transactions import AUDIT
from tests.gateway.admin import bench
from tests.harness import bounded, until
from tests.observability.journal.journals import events, lines_of, problems, settings_of

Use = Callable[[bench.Bench, AdminChanges], Awaitable[None]]


def run(store_url: str, folder: Path, use: Use) -> None:
    """Changes that are copied when a test says so."""

    async def main() -> None:
        async with bench.bench_of(store_url, bench.config_of()) as admin:
            changes = AdminChanges(admin.store, settings_of(folder, key_file=None))
            changes.start(poll_seconds=0.01)
            try:
                await use(admin, changes)
            finally:
                await changes.aclose()
                await changes.aclose()

    bounded(main)


def journalled(folder: Path) -> list[tuple[str, str, str]]:
    return [
        (line["actor"], line["action"], line["subject"])
        for line in lines_of(folder / "journal")
        if line["kind"] == "change"
    ]


def count(folder: Path) -> int:
    return len(journalled(folder))


def test_changes_of_all_kinds_with_what_was_before_and_after(store_url: str, tmp_path: Path) -> None:
    async def use(admin: bench.Bench, _: AdminChanges) -> None:
        await admin.tenant()
        await admin.ask("PATCH", "/admin/tenants/acme", {"tier": "gold"}, x_penstock_actor="alice")
        # Not by the admin API.
        await admin.registry.create_tenant(Tenant(name="other"), "cli:root")
        await until(lambda: count(tmp_path) == 3)

    run(store_url, tmp_path, use)
    assert journalled(tmp_path) == [
        ("admin-api", "tenant.create", "acme"),
        ("admin-api:alice", "tenant.update", "acme"),
        ("cli:root", "tenant.create", "other"),
    ]
    line = next(line for line in lines_of(tmp_path / "journal") if line.get("action") == "tenant.update")
    assert (line["before"].get("tier"), line["after"]["tier"]) == (None, "gold")
    assert problems(tmp_path / "journal", None) == []


def test_a_new_process_goes_on_behind_what_the_journal_has(store_url: str, tmp_path: Path) -> None:
    async def first(admin: bench.Bench, _: AdminChanges) -> None:
        await admin.tenant("a")
        await until(lambda: count(tmp_path) == 1)

    async def second(admin: bench.Bench, _: AdminChanges) -> None:
        await admin.tenant("c")
        await until(lambda: count(tmp_path) == 3)

    run(store_url, tmp_path, first)

    async def meanwhile() -> None:
        async with bench.bench_of(store_url, bench.config_of()) as admin:
            await admin.tenant("b")

    bounded(meanwhile)
    run(store_url, tmp_path, second)
    assert [subject for _, _, subject in journalled(tmp_path)] == ["a", "b", "c"]
    assert "changes_missing" not in events(tmp_path / "journal")


@pytest.mark.parametrize("how", ["trimmed", "emptied"])
def test_a_trail_that_was_cut_is_said(store_url: str, tmp_path: Path, how: str) -> None:
    async def use(admin: bench.Bench, _: AdminChanges) -> None:
        await admin.tenant("a")
        await until(lambda: count(tmp_path) == 1)

    run(store_url, tmp_path, use)

    async def meanwhile() -> None:
        async with bench.bench_of(store_url, bench.config_of()) as admin:
            await admin.tenant("b")
            await admin.tenant("c")

    bounded(meanwhile)
    with redis.Redis.from_url(store_url) as store:
        if how == "trimmed":
            store.xtrim(AUDIT, maxlen=1, approximate=False)
        else:
            store.delete(AUDIT)
            store.xadd(AUDIT, {"actor": "x", "action": "y", "subject": "c", "before": "", "after": "{"}, id="5-1")

    async def again(admin: bench.Bench, _: AdminChanges) -> None:
        await until(lambda: count(tmp_path) == 2)

    run(store_url, tmp_path, again)
    assert [subject for _, _, subject in journalled(tmp_path)] == ["a", "c"]
    assert events(tmp_path / "journal").count("changes_missing") == 1


def test_many_changes_are_copied_in_parts(store_url: str, tmp_path: Path) -> None:
    with redis.Redis.from_url(store_url) as store:
        for number in range(1203):
            store.xadd(AUDIT, {"actor": "x", "action": "y", "subject": str(number), "before": "", "after": "{}"})

    async def use(admin: bench.Bench, _: AdminChanges) -> None:
        await until(lambda: count(tmp_path) == 1203)

    run(store_url, tmp_path, use)
    assert [subject for _, _, subject in journalled(tmp_path)] == [str(number) for number in range(1203)]


def test_a_store_that_is_away_is_told_once(state_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def use(_: bench.Bench, changes: AdminChanges) -> None:
        await until(lambda: caplog.records)
        await asyncio.sleep(0.1)

    with caplog.at_level(logging.WARNING):
        run(f"unix://{state_dir}/nothing.sock", tmp_path, use)
    assert [record.message for record in caplog.records if "journalled" in record.message] == [
        record.message for record in caplog.records[:1]
    ]
    assert "admin changes cannot be journalled now, but will be" in caplog.records[0].message
