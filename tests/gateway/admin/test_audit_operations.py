"""The audit trail over HTTP."""

from gateway.admin.admin_paging import cursor
from tests.gateway.admin.bench import ADMIN_KEY, bench_of

PATH = "/admin/audit"


async def test_every_change_is_there_with_who_made_it(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.tenant()
        await bench.ask("PATCH", "/admin/tenants/acme", {"tier": "gold"}, x_penstock_actor="alice")
        key = await bench.key(tenant="acme")
        await bench.ask("POST", f"/admin/keys/{key['id']}/revoke", x_penstock_actor="Zoë ✓")
        await bench.refused(409, "name", "POST", "/admin/tenants", {"name": "acme"})
        entries = await bench.data(PATH)
        assert [(entry["actor"], entry["action"], entry["subject"]) for entry in entries] == [
            ("admin-api:Zoë ✓", "key.revoke", key["id"]),
            ("admin-api", "key.create", key["id"]),
            ("admin-api:alice", "tenant.update", "acme"),
            ("admin-api", "tenant.create", "acme"),
        ]
        assert (entries[2]["before"]["tier"], entries[2]["after"]["tier"]) == (None, "gold")
        assert entries[3]["before"] is None


async def test_bad_actors(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        for name in ("", "x" * 65, "a\tb", "\xff"):
            answer = await bench.ask(
                "POST",
                "/admin/tenants",
                {"name": "acme"},
                headers=[
                    (b"authorization", b"Bearer " + ADMIN_KEY.encode()),
                    (b"x-penstock-actor", name.encode("latin-1")),
                ],
            )
            assert (answer.status, answer.error["param"]) == (400, "x-penstock-actor")
        assert await bench.data(PATH) == []


async def test_pages(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        assert await bench.data(PATH) == []
        for number in range(12):
            await bench.tenant(f"t{number}")
        everything = await bench.data(PATH)
        assert [entry["subject"] for entry in everything] == [f"t{number}" for number in reversed(range(12))]
        for limit in (1, 4, 6, 12, 1000):
            assert await bench.data(PATH, limit=limit) == everything
        page = await bench.get(PATH, limit=5)
        await bench.tenant("later")
        assert (await bench.get(PATH, after=page["next"]))["data"] == everything[5:]
        assert (await bench.get(PATH, after=cursor("1-1")))["data"] == []
        for bad in ("x", cursor("now"), cursor(["1-1"]), cursor("9" * 30 + "-1")):
            await bench.refused(400, "after", "GET", PATH, query={"after": bad})
