"""The scrape key reads numbers, and nothing else."""

import os
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.admin_key import AdminKeyError
from gateway.admin.operations import OPERATIONS
from gateway.admin.scrape_key import ScrapeKey, check_scrape_key
from gateway.config.provider_secret import SecretError
from gateway.config.secrets import SecretSource
from protos.renewed import CHECK_SECONDS
from tests.gateway.admin.bench import ADMIN_KEY, bench_of, config_of

KEY = "sk-penstock-scrape-of-this-test"


def bearer(key: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + key.encode())]


@pytest.fixture
def fields(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "scrape.key").write_text(f"{KEY}\n")
    return {"admin": {"scrape_key": {"file": str(tmp_path / "scrape.key")}}}


async def test_it_opens_the_metrics(store_url: str, fields: dict[str, Any]) -> None:
    async with bench_of(store_url, config_of(**fields)) as bench:
        assert b"penstock_store_up 1" in (await bench.ask("GET", "/metrics", headers=bearer(KEY))).body
        assert (await bench.ask("HEAD", "/metrics", headers=bearer(KEY))).status == 200
        assert (await bench.ask("GET", "/metrics")).status == 200, "the admin key does, too"
        for other in (f"{KEY}x", KEY[:-1], "", KEY.upper()):
            assert (await bench.ask("GET", "/metrics", headers=bearer(other))).status == 401


async def test_it_opens_nothing_else(store_url: str, fields: dict[str, Any]) -> None:
    async with bench_of(store_url, config_of(**fields)) as bench:
        for operation in OPERATIONS:
            if operation.public or operation.scraped:
                continue
            path = operation.path.replace("{", "").replace("}", "").replace(":path", "")
            answer = await bench.ask(operation.method, path, headers=bearer(KEY))
            assert answer.status == 401, operation
            assert answer.error["message"] == "This key may read /metrics and nothing else."
        for method, path in (("POST", "/metrics"), ("GET", "/metrics/"), ("GET", "/admin/nothing")):
            assert (await bench.ask(method, path, headers=bearer(KEY))).status == 401


async def test_without_one_the_admin_key_alone_opens_them(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        assert (await bench.ask("GET", "/metrics", headers=bearer(KEY))).status == 401
        assert (await bench.ask("GET", "/metrics")).status == 200


def test_a_changed_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scrape.key"
    path.write_text(KEY)
    key = ScrapeKey(SecretSource(file=str(path)))
    now = key._renewed._checked_at
    monkeypatch.setattr(key._renewed, "_clock", lambda: now)
    for written in ("another-key-of-this-test", "short"):
        path.write_text(written)
        os.utime(path, ns=(0, len(written)))
        now += CHECK_SECONDS
        assert key.matches("Bearer another-key-of-this-test")
        assert not key.matches(f"Bearer {KEY}")


@pytest.mark.parametrize("text", ["", "short", "with a blank in it, which is long enough", "é" * 20, "x" * 513])
def test_a_key_of_another_form_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPE_KEY_OF_THIS_TEST", text)
    with pytest.raises(SecretError, match="SCRAPE_KEY_OF_THIS_TEST") as caught:
        ScrapeKey(SecretSource(env="SCRAPE_KEY_OF_THIS_TEST"))
    assert not text or text not in str(caught.value)


def test_the_admin_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(admin={"scrape_key": {"env": "SCRAPE"}})
    check_scrape_key(config_of(), ADMIN_KEY)
    with pytest.raises(AdminKeyError, match=r"admin\.scrape_key: .*SCRAPE is not set"):
        check_scrape_key(config, ADMIN_KEY)
    monkeypatch.setenv("SCRAPE", KEY)
    check_scrape_key(config, ADMIN_KEY)
    monkeypatch.setenv("SCRAPE", f"{ADMIN_KEY}\n")
    with pytest.raises(AdminKeyError, match="it is the admin key"):
        check_scrape_key(config, ADMIN_KEY)
