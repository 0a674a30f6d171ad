"""Tenants over HTTP."""

import asyncio
from typing import Any

import pytest

from tests.gateway.admin.bench import bench_of, config_of

PATH = "/admin/tenants"
FILED = config_of(tenants=[{"name": "filed", "limits": {"rpm": 7}}])


async def test_a_life(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        made = await bench.tenant(tier="gold", limits={"rpm": 600, "budget": {"usd": 5}}, models=["m", "org/*"])
        assert made["object"] == "tenant"
        assert (made["source"], made["shadowed"], made["tier"]) == ("api", False, "gold")
        assert made["limits"]["budget"] == {"usd": 5.0, "period": "month", "alerts": [75, 90]}
        assert await bench.get(f"{PATH}/acme") == made
        replaced = await bench.ask("PUT", f"{PATH}/acme", {"name": "acme", "limits": {"tpm": 9}})
        assert replaced.status == 200
        assert (replaced.json["tier"], replaced.json["limits"]["rpm"], replaced.json["limits"]["tpm"]) == (
            None,
            None,
            9,
        )
        patched = await bench.ask("PATCH", f"{PATH}/acme", {"tier": "silver", "limits": {"rpm": 1, "tpm": None}})
        assert (patched.json["tier"], patched.json["limits"]["rpm"], patched.json["limits"]["tpm"]) == (
            "silver",
            1,
            None,
        )
        assert await bench.get(f"{PATH}/acme") == patched.json
        gone = await bench.ask("DELETE", f"{PATH}/acme", b"{}")
        assert gone.json == {"object": "tenant", "name": "acme", "deleted": True}
        await bench.refused(404, "name", "GET", f"{PATH}/acme")


async def test_policy_and_cache_group(store_url: str) -> None:
    async with bench_of(store_url, config_of(safety={"policies": [{"name": "strict", "input": ["pii"]}]})) as bench:
        made = await bench.tenant(safety="strict", cache_group="friends")
        assert (made["safety"], made["cache_group"]) == ("strict", "friends")
        assert (await bench.get(PATH))["data"][0]["cache_group"] == "friends"
        patched = await bench.ask("PATCH", f"{PATH}/acme", {"safety": None})
        assert (patched.json["safety"], patched.json["cache_group"]) == (None, "friends")
        patched = await bench.ask("PATCH", f"{PATH}/acme", {"cache_group": None})
        assert patched.json["cache_group"] is None


async def test_the_implicit_default_can_be_changed_and_reset(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        assert (await bench.get(f"{PATH}/default"))["source"] == "built-in"
        changed = await bench.ask("PATCH", f"{PATH}/default", {"limits": {"rpm": 3}})
        assert (changed.json["source"], changed.json["limits"]["rpm"]) == ("api", 3)
        assert (await bench.ask("DELETE", f"{PATH}/default")).status == 200
        assert (await bench.get(f"{PATH}/default"))["limits"]["rpm"] is None
        await bench.refused(409, "name", "DELETE", f"{PATH}/default")


async def test_the_file_wins_and_says_so(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.tenant("filed", limits={"rpm": 1})

    async with bench_of(store_url, FILED) as bench:
        found = await bench.get(f"{PATH}/filed")
        assert (found["source"], found["shadowed"], found["limits"]["rpm"]) == ("file", True, 7)
        for method, path, body in (
            ("POST", PATH, {"name": "filed"}),
            ("PUT", f"{PATH}/filed", {"name": "filed"}),
            ("PATCH", f"{PATH}/filed", {}),
            ("DELETE", f"{PATH}/filed", b""),
        ):
            assert "configuration file" in await bench.refused(409, "name", method, path, body)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"name": "a b"}, "name"),
        ({"name": ""}, "name"),
        ({}, "name"),
        ({"name": "a", "limits": {"rpm": 0}}, "limits.rpm"),
        ({"name": "a", "limits": {"rpm": -1}}, "limits.rpm"),
        ({"name": "a", "limits": {"rpm": "60"}}, "limits.rpm"),
        ({"name": "a", "limits": {"rpm": 1.5}}, "limits.rpm"),
        ({"name": "a", "limits": {"rpm": True}}, "limits.rpm"),
        ({"name": "a", "limits": {"tpm": 10**13}}, "limits.tpm"),
        ({"name": "a", "limits": {"budget": {"usd": 0}}}, "limits.budget.usd"),
        ({"name": "a", "limits": {"budget": {"usd": 1, "period": "week"}}}, "limits.budget.period"),
        ({"name": "a", "limits": {"rmp": 1}}, "limits.rmp"),
        ({"name": "a", "limits": {"max_output_tokens": 1, "default_output_tokens": 2}}, "limits.default_output_tokens"),
        ({"name": "a", "tier": "platinum"}, "tier"),
        ({"name": "a", "safety": "lax"}, "safety"),
        ({"name": "a", "cache_group": "a b"}, "cache_group"),
        ({"name": "a", "models": []}, "models"),
        ({"name": "a", "models": ["*", "m"]}, "models[1]"),
        ({"name": "a", "model_limits": {"nope": {"rpm": 1}}}, "model_limits.nope"),
        ({"name": "a", "colour": "red"}, "colour"),
        ([], None),
        ("a", None),
        (None, None),
    ],
)
async def test_bad_records_are_refused_with_the_field(store_url: str, fields: Any, param: str | None) -> None:
    async with bench_of(store_url) as bench:
        await bench.refused(400, param, "POST", PATH, fields)
        if isinstance(fields, dict):
            await bench.tenant("a", limits={"rpm": 5})
            if fields.get("name") == "a":
                await bench.refused(400, param, "PUT", f"{PATH}/a", fields)
                await bench.refused(400, param, "PATCH", f"{PATH}/a", fields)
            assert (await bench.get(f"{PATH}/a"))["limits"]["rpm"] == 5


async def test_what_contradicts(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.tenant()
        await bench.refused(409, "name", "POST", PATH, {"name": "acme"})
        await bench.refused(400, "name", "PUT", f"{PATH}/acme", {"name": "other"})
        await bench.refused(400, "name", "PATCH", f"{PATH}/acme", {"name": "other"})
        await bench.refused(400, "name", "PATCH", f"{PATH}/acme", {"name": None})
        for method in ("GET", "DELETE"):
            await bench.refused(404, "name", method, f"{PATH}/nobody")
        await bench.refused(404, "name", "PUT", f"{PATH}/nobody", {"name": "nobody"})
        await bench.refused(404, "name", "PATCH", f"{PATH}/nobody", {})
        key = await bench.key(tenant="acme")
        assert "active keys (1)" in await bench.refused(409, "name", "DELETE", f"{PATH}/acme")
        await bench.ask("POST", f"/admin/keys/{key['id']}/revoke")
        assert (await bench.ask("DELETE", f"{PATH}/acme")).status == 200


async def test_changes_that_cross(store_url: str) -> None:
    """An entity tag keeps a change from undoing one that its maker has not seen; merge patches lose nothing."""

    async with bench_of(store_url) as bench:
        await bench.tenant()
        read = await bench.ask("GET", f"{PATH}/acme")
        tag = read.headers["etag"]
        first = await bench.ask("PATCH", f"{PATH}/acme", {"tier": "gold"}, if_match=tag)
        assert first.status == 200
        assert first.headers["etag"] != tag
        for method, body in (("PATCH", {"tier": "silver"}), ("PUT", {"name": "acme"})):
            await bench.refused(412, "if-match", method, f"{PATH}/acme", body, if_match=tag)
        assert (await bench.get(f"{PATH}/acme"))["tier"] == "gold"
        for tags in ("*", f'"other", {first.headers["etag"]}'):
            assert (await bench.ask("PATCH", f"{PATH}/acme", {}, if_match=tags)).status == 200
        await bench.refused(400, "if-match", "DELETE", f"{PATH}/acme", if_match=tag)
        names = ["rpm", "tpm", "input_tpm", "output_tpm", "concurrency"]
        await asyncio.gather(*(bench.ask("PATCH", f"{PATH}/acme", {"limits": {name: 5}}) for name in names))
        limits = (await bench.get(f"{PATH}/acme"))["limits"]
        assert [limits[name] for name in names] == [5] * 5


async def test_pages(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        names = sorted(f"t{number}" for number in range(25))
        for name in names:
            await bench.tenant(name)
        for limit in (1, 7, 13, 26, 1000):
            assert [view["name"] for view in await bench.data(PATH, limit=limit)] == ["default", *names]
        page = await bench.get(PATH, limit=3)
        await bench.ask("DELETE", f"{PATH}/{page['data'][-1]['name']}")
        await bench.tenant("a")
        rest = await bench.get(PATH, limit=1000, after=page["next"])
        assert [view["name"] for view in rest["data"]] == names[2:], "what changes meanwhile moves nothing"
