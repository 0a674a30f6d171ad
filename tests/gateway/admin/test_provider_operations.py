"""Keys of providers over HTTP: they go in and never come out."""

import logging
from typing import Any

import pytest

from tests.gateway.admin.bench import bench_of, config_of

PATH = "/admin/providers"
VARIABLE = "PENSTOCK_TEST_ENCRYPTION_KEY"
SECRET = "sk-live-0123456789"
CONFIG = config_of(store={"encryption_key": {"env": VARIABLE}})


@pytest.fixture(autouse=True)
def encryption_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, bytes(range(32)).hex())


async def test_a_life(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with bench_of(store_url, CONFIG) as bench:
            answers = [
                await bench.ask("PUT", f"{PATH}/openai", {"key": SECRET}, x_penstock_actor="alice"),
                await bench.ask("PUT", f"{PATH}/openai", {"key": f"{SECRET}2"}),
                await bench.ask("GET", PATH),
                await bench.ask("GET", "/admin/audit"),
            ]
            made, changed, page, _ = (answer.json for answer in answers)
            assert set(made) == {"object", "name", "fingerprint", "created_at", "created_by"}
            assert (made["name"], made["created_by"]) == ("openai", "admin-api:alice")
            assert made["fingerprint"] != changed["fingerprint"]
            assert page["data"] == [changed]
            answers.append(await bench.ask("DELETE", f"{PATH}/openai"))
            assert answers[-1].json == {"name": "openai", "deleted": True}
            assert await bench.data(PATH) == []
            await bench.refused(404, "name", "DELETE", f"{PATH}/openai")
            trail = await bench.data("/admin/audit")
            assert [entry["action"] for entry in trail] == ["provider.delete", "provider.set", "provider.set"]
            assert [entry["subject"] for entry in trail] == ["openai"] * 3
            assert trail[0]["before"]["fingerprint"] == trail[1]["after"]["fingerprint"] == changed["fingerprint"]
            assert trail[2]["before"] is None
            answers.append(await bench.ask("GET", "/admin/audit"))
            assert not any(SECRET.encode() in answer.body or b"sealed" in answer.body for answer in answers)
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        {"key": [SECRET]},
        {"key": {"a": SECRET}},
        {"key": SECRET, "other": SECRET},
        {SECRET: "key"},
        [SECRET],
        SECRET,
        {"key": f"{SECRET} {SECRET}"},
        {"key": f"{SECRET}\n{SECRET}"},
        {"key": SECRET * 500},
        f'{{"key": "{SECRET}'.encode(),
    ],
)
async def test_no_error_quotes_what_may_be_a_key(store_url: str, body: Any) -> None:
    async with bench_of(store_url, CONFIG) as bench:
        answer = await bench.ask("PUT", f"{PATH}/openai", body)
        assert answer.status == 400, answer.body
        assert SECRET.encode() not in answer.body


async def test_bad_names_and_empty_keys(store_url: str) -> None:
    async with bench_of(store_url, CONFIG) as bench:
        await bench.refused(400, "name", "PUT", f"{PATH}/.x", {"key": SECRET})
        await bench.refused(400, "key", "PUT", f"{PATH}/x", {"key": ""})
        await bench.refused(400, "key", "PUT", f"{PATH}/x", {"key": " "})


async def test_without_an_encryption_key(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench_of(store_url) as bench:
        said = await bench.refused(409, None, "PUT", f"{PATH}/x", {"key": SECRET})
        assert "store.encryption_key" in said
    monkeypatch.delenv(VARIABLE)

    async with bench_of(store_url, CONFIG) as bench:
        said = await bench.refused(409, None, "PUT", f"{PATH}/x", {"key": SECRET})
        assert said == "The encryption key cannot be used; the log says why."
