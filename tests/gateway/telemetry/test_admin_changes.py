"""Every admin change is in the journal, once."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from gateway.config.tenants import Tenant
from gateway.telemetry.admin_changes import AdminChanges
from gateway.tenancy.tenants.transactions import AUDIT
from tests.gateway.admin import bench
from tests.loops import until
from tests.observability.journal.journals import events, lines_of, problems, settings_of


@contextlib.asynccontextmanager
async def running(store_url: str, folder: Path) -> AsyncIterator[tuple[bench.Bench, AdminChanges]]:
    """Changes that are copied when a test says so."""

    async with bench.bench_of(store_url, bench.config_of()) as admin:
        changes = AdminChanges(admin.store, settings_of(folder, key_file=None))
        changes.start(poll_seconds=0.01)
        try:
            yield admin, changes
        finally:
            await changes.aclose()
            await changes.aclose()


def journalled(folder: Path) -> list[tuple[str, str, str]]:
    return [
        (line["actor"], line["action"], line["subject"])
        for line in lines_of(folder / "journal")
        if line["kind"] == "change"
    ]


def count(folder: Path) -> int:
    return len(journalled(folder))


async def test_changes_of_all_kinds_with_what_was_before_and_after(store_url: str, tmp_path: Path) -> None:
    async with running(store_url, tmp_path) as (admin, _):
        await admin.tenant()
        await admin.ask("PATCH", "/admin/tenants/acme", {"tier": "gold"}, x_penstock_actor="alice")
        # Not by the admin API.
        await admin.registry.create_tenant(Tenant(name="other"), "cli:root")
        await until(lambda: count(tmp_path) == 3)
    assert journalled(tmp_path) == [
        ("admin-api", "tenant.create", "acme"),
        ("admin-api:alice", "tenant.update", "acme"),
        ("cli:root", "tenant.create", "other"),
    ]
    line = next(line for line in lines_of(tmp_path / "journal") if line.get("action") == "tenant.update")
    assert (line["before"].get("tier"), line["after"]["tier"]) == (None, "gold")
    assert problems(tmp_path / "journal", None) == []


async def test_a_new_process_goes_on_behind_what_the_journal_has(store_url: str, tmp_path: Path) -> None:
    async with running(store_url, tmp_path) as (admin, _):
        await admin.tenant("a")
        await until(lambda: count(tmp_path) == 1)

    async with bench.bench_of(store_url, bench.config_of()) as admin:
        await admin.tenant("b")

    async with running(store_url, tmp_path) as (admin, _):
        await admin.tenant("c")
        await until(lambda: count(tmp_path) == 3)
    assert [subject for _, _, subject in journalled(tmp_path)] == ["a", "b", "c"]
    assert "changes_missing" not in events(tmp_path / "journal")


@pytest.mark.parametrize("how", ["trimmed", "emptied"])
async def test_a_trail_that_was_cut_is_said(store_url: str, tmp_path: Path, how: str) -> None:
    async with running(store_url, tmp_path) as (admin, _):
        await admin.tenant("a")
        await until(lambda: count(tmp_path) == 1)

    async with bench.bench_of(store_url, bench.config_of()) as admin:
        await admin.tenant("b")
        await admin.tenant("c")
    with redis.Redis.from_url(store_url) as store:
        if how == "trimmed":
            store.xtrim(AUDIT, maxlen=1, approximate=False)
        else:
            store.delete(AUDIT)
            store.xadd(AUDIT, {"actor": "x", "action": "y", "subject": "c", "before": "", "after": "{"}, id="5-1")

    async with running(store_url, tmp_path):
        await until(lambda: count(tmp_path) == 2)
    assert [subject for _, _, subject in journalled(tmp_path)] == ["a", "c"]
    assert events(tmp_path / "journal").count("changes_missing") == 1


async def test_many_changes_are_copied_in_parts(store_url: str, tmp_path: Path) -> None:
    with redis.Redis.from_url(store_url) as store:
        for number in range(1203):
            store.xadd(AUDIT, {"actor": "x", "action": "y", "subject": str(number), "before": "", "after": "{}"})

    async with running(store_url, tmp_path):
        await until(lambda: count(tmp_path) == 1203)
    assert [subject for _, _, subject in journalled(tmp_path)] == [str(number) for number in range(1203)]


async def test_a_store_that_is_away_is_told_once(
    state_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with running(f"unix://{state_dir}/nothing.sock", tmp_path):
            await until(lambda: caplog.records)
            await asyncio.sleep(0.1)
    assert [record.message for record in caplog.records if "journalled" in record.message] == [
        record.message for record in caplog.records[:1]
    ]
    assert "admin changes cannot be journalled now, but will be" in caplog.records[0].message
