"""API keys over HTTP."""

import asyncio
import time
from typing import Any

import pytest

from gateway.tenancy.auth.key_store import KeyStore, digest_of
from tests.gateway.admin.bench import bench_of

PATH = "/admin/keys"


async def test_a_life(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.tenant()
        made = await bench.key(
            "ci", "acme", models=["m"], endpoints=["chat"], limits={"rpm": 3}, metadata={"team": "a"}, expires_at=4e9
        )
        assert made["explain"] is False
        secret = made.pop("key")
        assert secret.startswith("sk-penstock-")
        assert not secret.startswith("sk-penstock-admin-")
        assert (made["object"], made["state"], made["tenant"]) == ("key", "active", "acme")
        assert await bench.get(f"{PATH}/{made['id']}") == made
        changes = {"name": "cd", "limits": {"rpm": None, "tpm": 9}, "metadata": {"x": "y"}, "expires_at": None}
        patched = (await bench.ask("PATCH", f"{PATH}/{made['id']}", changes)).json
        assert (patched["name"], patched["limits"]["rpm"], patched["limits"]["tpm"]) == ("cd", None, 9)
        assert (patched["metadata"], patched["expires_at"]) == ({"team": "a", "x": "y"}, None)
        assert (patched["models"], patched["endpoints"]) == (["m"], ["chat"])
        revoked = (await bench.ask("POST", f"{PATH}/{made['id']}/revoke")).json
        assert revoked["state"] == "revoked"
        assert (await bench.ask("POST", f"{PATH}/{made['id']}/revoke", b"{}")).json == revoked
        await bench.refused(409, None, "PATCH", f"{PATH}/{made['id']}", {"name": "again"})


async def test_explaining_is_given_taken_and_audited(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        made = await bench.key("ci", explain=True)
        assert made["explain"] is True
        rotated = await bench.ask("POST", f"{PATH}/{made['id']}/rotate", {"grace_seconds": 60})
        assert rotated.json["explain"] is True
        path = f"{PATH}/{rotated.json['id']}"
        assert (await bench.ask("PATCH", path, {"metadata": {"a": "b"}})).json["explain"] is True
        assert (await bench.ask("PATCH", path, {"explain": None})).json["explain"] is False
        assert [view["explain"] for view in await bench.data(PATH)] == [True, False]
        entry = (await bench.data("/admin/audit"))[0]
        assert (entry["action"], entry["before"]["explain"], entry["after"]["explain"]) == ("key.update", True, False)


async def test_a_secret_is_shown_once(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        made = await bench.key()
        rotated = await bench.ask("POST", f"{PATH}/{made['id']}/rotate", {"grace_seconds": 60})
        secrets = [made["key"], rotated.json["key"]]
        seen = [await bench.ask("GET", path) for path in (PATH, f"{PATH}/{made['id']}", "/admin/audit")]
        seen.append(await bench.ask("PATCH", f"{PATH}/{rotated.json['id']}", {"name": "z"}))
        for answer in seen:
            assert answer.status == 200
            for secret in secrets:
                assert secret.encode() not in answer.body
                assert digest_of(secret.encode()).hex().encode() not in answer.body


async def test_rotation(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        old = await bench.key(limits={"rpm": 3})
        answer = await bench.ask("POST", f"{PATH}/{old['id']}/rotate", {"grace_seconds": 3600})
        new = answer.json
        assert answer.status == 201
        assert (new["replaces"], new["limits"]["rpm"], new["state"]) == (old["id"], 3, "active")
        ending = await bench.get(f"{PATH}/{old['id']}")
        assert ending["state"] == "active"
        assert abs(ending["expires_at"] - time.time() - 3600) < 60
        await bench.refused(409, "name", "POST", PATH, {"name": "k"})
        await bench.ask("POST", f"{PATH}/{new['id']}/rotate", {"grace_seconds": 0})
        assert (await bench.get(f"{PATH}/{new['id']}"))["state"] == "expired"
        found = await KeyStore(bench.store).find(digest_of(new["key"].encode()))
        assert found.key is not None
        assert found.key.key_id == new["id"]
        await bench.refused(409, None, "POST", f"{PATH}/{new['id']}/rotate", {"grace_seconds": 0})


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "grace_seconds"),
        ({"grace_seconds": -1}, "grace_seconds"),
        ({"grace_seconds": 31 * 86400}, "grace_seconds"),
        ({"grace_seconds": "60"}, "grace_seconds"),
        ({"grace": 1}, "grace"),
        (b"", None),
    ],
)
async def test_bad_rotations(store_url: str, body: Any, param: str | None) -> None:
    async with bench_of(store_url) as bench:
        key = await bench.key()
        await bench.refused(400, param, "POST", f"{PATH}/{key['id']}/rotate", body)
        assert (await bench.get(f"{PATH}/{key['id']}"))["expires_at"] is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "quickstart"}, "name"),
        ({"name": "a", "models": ["m m"]}, "models[0]"),
        ({"name": "a", "models": ["m", "m"]}, "models[1]"),
        ({"name": "a", "endpoints": ["audio"]}, "endpoints[0]"),
        ({"name": "a", "endpoints": ["chat", "chat"]}, "endpoints[1]"),
        ({"name": "a", "explain": 1}, "explain"),
        ({"name": "a", "expires_at": 12.0}, "expires_at"),
        ({"name": "a", "expires_at": 10**18}, "expires_at"),
        ({"name": "a", "expires_at": "tomorrow"}, "expires_at"),
        ({"name": "a", "metadata": {"a": 1}}, "metadata.a"),
        ({"name": "a", "metadata": {"a": "x" * 600}}, "metadata.a"),
        ({"name": "a", "limits": {"concurrency": 0}}, "limits.concurrency"),
        ({"name": "a", "revoked_at": None}, "revoked_at"),
    ],
)
async def test_bad_keys_are_refused_with_the_field(store_url: str, fields: Any, param: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.refused(400, param, "POST", PATH, fields)
        assert await bench.data(PATH) == []
        key = await bench.key()
        if fields.get("revoked_at", 1) is not None:  # null asks a patch to remove what is not there
            await bench.refused(400, param, "PATCH", f"{PATH}/{key['id']}", fields)
        assert await bench.get(f"{PATH}/{key['id']}") == {name: key[name] for name in key if name != "key"}


async def test_what_contradicts(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.refused(400, "tenant", "POST", PATH, {"name": "a", "tenant": "nobody"})
        key = await bench.key()
        await bench.refused(409, "name", "POST", PATH, {"name": "k"})
        other = await bench.key("other")
        await bench.refused(409, "name", "PATCH", f"{PATH}/{other['id']}", {"name": "k"})
        await bench.refused(400, "tenant", "PATCH", f"{PATH}/{key['id']}", {"tenant": "acme"})
        for method, path in (("GET", ""), ("PATCH", ""), ("POST", "/revoke"), ("POST", "/rotate")):
            body = {"grace_seconds": 1} if path == "/rotate" else {}
            answer = await bench.ask(method, f"{PATH}/key_nothing{path}", b"" if method == "GET" else body)
            assert (answer.status, answer.error["code"]) == (404, "key_not_found"), answer.body


async def test_lists(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.tenant()
        await bench.tenant("empty")
        made = [(await bench.key(f"k{number}", ("acme", "default")[number % 2]))["id"] for number in range(11)]
        for limit in (1, 4, 11, 100):
            assert [view["id"] for view in await bench.data(PATH, limit=limit)] == made
            assert [view["id"] for view in await bench.data(PATH, limit=limit, tenant="acme")] == made[::2]
        assert await bench.data(PATH, tenant="empty") == []
        await bench.refused(404, "tenant", "GET", PATH, query="tenant=nobody")
        await bench.refused(400, "after", "GET", PATH, query="after=nonsense")
        tenants = await bench.get("/admin/tenants", limit=1)
        await bench.refused(400, "after", "GET", PATH, query={"after": tenants["next"]})


async def test_patches_that_cross_lose_nothing(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        key = await bench.key()
        names = [f"n{number}" for number in range(8)]
        answers = await asyncio.gather(
            *(bench.ask("PATCH", f"{PATH}/{key['id']}", {"metadata": {name: "x"}}) for name in names)
        )
        assert [answer.status for answer in answers] == [200] * 8
        assert sorted((await bench.get(f"{PATH}/{key['id']}"))["metadata"]) == names
