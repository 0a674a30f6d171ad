"""What all operations share: the key, the bounds of a request, and how failures look."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.admin.operation import Call, NoQuery, Operation
from gateway.admin.operations import OPERATIONS, Health
from gateway.tenancy.auth.authenticator import Authenticator
from gateway.tenancy.tenants.tenant_directory import Directory
from protos.errors import AuthenticationFailed
from tests.gateway.admin.bench import ADMIN_KEY, DOCUMENT, bench_of, config_of

PATHS = sorted(DOCUMENT["paths"])


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer " + ADMIN_KEY.encode() + b"x",
        b"Bearer " + ADMIN_KEY[:-1].encode(),
        b"Basic " + ADMIN_KEY.encode(),
        ADMIN_KEY.encode(),
        b"Bearer \xff\xfe",
    ],
)
async def test_nothing_without_the_key(store_url: str, header: bytes | None) -> None:
    async with bench_of(store_url) as bench:
        bodies = set()
        for path in [*PATHS, "/", "/admin", "/admin/nothing"]:
            for method in ("GET", "POST", "DELETE", "BREW"):
                headers = [] if header is None else [(b"authorization", header)]
                answer = await bench.ask(method, path, b"{", "zzz=1", headers)
                if (method, path) == ("GET", "/healthz"):
                    continue
                assert answer.status == 401
                assert answer.headers["www-authenticate"] == "Bearer"
                bodies.add(answer.body)
        assert len(bodies) == 1, "it says nothing of what there is"


async def test_either_key_opens_its_own_door_alone(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        secret = (await bench.key())["key"]
        headers = [(b"authorization", b"Bearer " + secret.encode())]
        assert (await bench.ask("GET", "/admin/tenants", headers=headers)).status == 401
        auth = Authenticator(bench.registry._keys, Directory(bench.store, config_of()), cache_size=9)
        try:
            with pytest.raises(AuthenticationFailed):
                await auth.authenticate(b"Bearer " + ADMIN_KEY.encode())
            assert await auth.authenticate(b"Bearer " + secret.encode())
        finally:
            await auth.aclose()


async def test_health_needs_neither_key_nor_store() -> None:
    async with bench_of("unix:///nonexistent/store.sock") as bench:
        answer = await bench.ask("GET", "/healthz", headers=[])
        assert (answer.status, answer.json) == (200, {"status": "ok"})
        assert (await bench.ask("HEAD", "/healthz", headers=[])).status == 200


#: What operations must be asked for.
QUERIES = {"/admin/reshape/choices": {"model": "m", "group": "g"}}


async def test_unknown_paths_and_methods(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        for path in ("/", "/admin", "/admin/", "/admin/tenants/", "/admin/tenants/a/b", "/v1/models", "/" + "x" * 9999):
            answer = await bench.ask("GET", path)
            assert (answer.status, answer.error["code"]) == (404, "unknown_url")
        for path, methods in DOCUMENT["paths"].items():
            answer = await bench.ask("BREW", path)
            assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
            assert answer.headers["allow"].lower().split(", ") == list(methods)
            if "get" in methods:
                assert (await bench.ask("HEAD", path, query=QUERIES.get(path, ""))).status in (200, 404)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"{}", 400),
        (b'{"name": "a"', 400),
        (b'{"name": "a"} x', 400),
        (b'{"name": NaN}', 400),
        (b'{"name": "\xff"}', 400),
        (b'{"name": "\\ud800"}', 400),
        (b"[" * 100_000, 400),
        (b'{"limits":' * 100_000, 400),
        (b'{"name": "a", "limits": {"rpm": 1e999}}', 400),
        (b'{"name": "a", "limits": {"rpm": ' + b"9" * 5000 + b"}}", 400),
        (b'{"name": "' + b"a" * 1_000_000 + b'"}', 413),
        (b'{"' + b"a" * 900_000 + b'": 1}', 400),
    ],
)
async def test_bad_bodies(store_url: str, body: bytes, status: int) -> None:
    async with bench_of(store_url) as bench:
        assert (await bench.ask("POST", "/admin/tenants", body)).status == status
        assert (await bench.ask("PATCH", "/admin/tenants/default", body)).status in (
            {status} if body != b"{}" else {200}
        )
        entries = await bench.data("/admin/audit")
        assert len(entries) <= 1


async def test_a_nesting_that_only_just_parses(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        for depth in (*range(150, 1000, 50), 990, 995):
            body = b'{"a":' * depth + b"1" + b"}" * depth
            assert (await bench.ask("PATCH", "/admin/tenants/default", body)).status == 400


async def test_what_takes_no_body_or_no_parameter(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        await bench.refused(400, None, "GET", "/admin/tenants", b'{"name": "a"}')
        await bench.refused(400, "zzz", "GET", "/admin/tenants/default", query="zzz=1")
        await bench.refused(400, "limit", "GET", "/admin/tenants", query="limit=1&limit=1")
        await bench.refused(400, "limit", "GET", "/admin/tenants", query="limit")
        await bench.refused(400, None, "GET", "/admin/tenants", query="a=" + "b" * 9000)
        long = await bench.ask("GET", "/admin/tenants", query={"y" * 4000: 1})
        assert len(long.error["param"]) <= 128


async def test_bodies_in_parts(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        call = bench.call("POST", "/admin/tenants")
        for part in (b"{", b'"name":', b'"acme"'):
            call.put(part, more=True)
        call.put(b"}")
        assert (await call.answer()).status == 201
        call = bench.call("POST", "/admin/tenants", content_length="123456789")
        assert (await call.answer()).status == 413, "it is not read first"
        call = bench.call("POST", "/admin/tenants")
        for _ in range(11):
            call.put(b" " * 100_000, more=True)
        assert (await call.answer()).status == 413
        call = bench.call("POST", "/admin/tenants")
        call.put(b"{", more=True)
        call.disconnect()
        assert (await call.answer()).status == 400


async def test_a_body_that_does_not_come(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.admin.admin_app.BODY_SECONDS", 0.01)

    async with bench_of(store_url) as bench:
        call = bench.call("POST", "/admin/tenants")
        call.put(b"{", more=True)
        answer = await call.answer()
        assert (answer.status, answer.error["code"]) == (408, "request_timeout")


REQUESTS: dict[str, tuple[str, Any]] = {
    "/admin/tenants/{name}": ("acme", None),
    "/admin/keys/{id}": ("key_a", None),
    "/admin/keys/{id}/rotate": ("key_a", {"grace_seconds": 1}),
    "/admin/keys/{id}/revoke": ("key_a", b""),
    "/admin/replicas/drain": ("", {"target": "p", "model": "m"}),
    "/admin/replicas/resume": ("", {"target": "p", "model": "m"}),
    "/admin/providers/{name}": ("openai", {"key": "sk-0123456789"}),
    "/admin/scaling/set": ("", {"pool": "scaled", "replicas": 1}),
    "/admin/scaling/pause": ("", {"model": "scaled"}),
    "/admin/scaling/resume": ("", {"model": "scaled"}),
    "/admin/drift/reset": ("", {"model": "m"}),
    **{f"/admin/reshape/{action}": ("", {"model": "m", "group": "g", "shape": [2]}) for action in ("plan", "apply")},
    "/admin/rollouts/start": ("", {"model": "m", "to": "v2"}),
    **{f"/admin/rollouts/{action}": ("", {"model": "m"}) for action in ("promote", "abort", "pause", "resume")},
}
#: Beside a model like any other, one whose pool scales.
POOLS = [
    {"name": "p", "engine": "simulated", "replicas": 1, "version": "v1"},
    {
        "name": "scaled",
        "engine": "simulated",
        "replicas": "registered",
        "launcher": "local",
        "scaling": {"min": 0, "max": 1},
    },
]
MODELS = [
    {"name": name, "tokenizer": "t", "context": 9, "pools": [pool], "drift": {}, **more}
    for name, pool, more in zip(("m", "scaled"), POOLS, ({"stable": "v1", "reshape": {}}, {}), strict=True)
]


async def test_the_store_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operation that needs it says so within the bound."""
    monkeypatch.setenv("PENSTOCK_TEST_ENCRYPTION_KEY", bytes(32).hex())
    config = config_of(store={"encryption_key": {"env": "PENSTOCK_TEST_ENCRYPTION_KEY"}}, models=MODELS)

    async with bench_of("unix:///nonexistent/store.sock", config, timeout=0.5) as bench:
        for operation in OPERATIONS:
            if operation.streamed:
                continue
            variable, body = REQUESTS.get(operation.path, ("", None))
            path = operation.path.replace("{name}", variable).replace("{id}", variable)
            if operation.body is None:
                body = b""
            elif body is None:
                body = {"name": "acme"}
            async with asyncio.timeout(10):
                answer = await bench.ask(operation.method, path, body, query=QUERIES.get(path, ""))
            # What workers count is shown without the store.
            if path in ("/healthz", "/admin/openapi.json", "/metrics"):
                assert answer.status == 200
                continue
            # The supervisor is asked for that, and here is none.
            if path == "/admin/config/reload":
                assert (answer.status, answer.error["code"]) == (409, "conflict")
                continue
            assert (answer.status, answer.error["code"]) == (503, "store_unavailable"), path
            assert answer.headers["retry-after"] == "1"


async def test_a_stop_ends_what_waits(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        call = bench.call("POST", "/admin/tenants")
        call.put(b"{", more=True)
        await asyncio.sleep(0)
        bench.app.abandon()
        answer = await call.answer()
        assert (answer.status, answer.error["message"]) == (503, "The admin API is shutting down.")


def operation_of(handler: Callable[[Call[NoQuery, None]], Any]) -> list[Operation]:
    return [Operation("GET", "/x", "x", "x", handler, Health)]


async def test_what_nobody_expected(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(call: Call[NoQuery, None]) -> Health:
        raise RuntimeError("/tmp/secret.py")

    async with bench_of(store_url, operations=operation_of(fails)) as bench:
        call = bench.call("GET", "/x")
        call.put(b"")
        answer = await call.answer()
        assert (answer.status, answer.error["code"]) == (500, "internal_error")
        assert b"secret" not in answer.body
        assert answer.headers["x-request-id"] in caplog.text
        assert "/tmp/secret.py" in caplog.text


async def test_work_without_end(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.admin.admin_app.WORK_SECONDS", 0.01)

    async def waits(call: Call[NoQuery, None]) -> Health:
        await asyncio.Event().wait()
        return Health()

    async with bench_of(store_url, operations=operation_of(waits)) as bench:
        call = bench.call("GET", "/x")
        call.put(b"")
        assert (await call.answer()).status == 504


async def test_the_document(store_url: str) -> None:
    """`bench.check` holds every answer of every test against it; here is the rest."""

    async with bench_of(store_url) as bench:
        found = await bench.get("/admin/openapi.json")
        assert found == DOCUMENT
        assert found["openapi"] == "3.1.0"
        names = [one["operationId"] for methods in found["paths"].values() for one in methods.values()]
        assert len(names) == len(set(names)) == len(OPERATIONS)
        text = msgspec.json.encode(found).decode()
        for reference in set(text.split('"#/components/schemas/')[1:]):
            assert reference.split('"')[0] in found["components"]["schemas"]
        usage = found["paths"]["/admin/usage"]["get"]["parameters"]
        assert [parameter["name"] for parameter in usage] == ["limit", "after", "by", "since", "tenant"]
        rename = found["paths"]["/admin/tenants/{name}"]["patch"]
        assert [one["name"] for one in rename["parameters"]] == ["name", "if-match", "x-penstock-actor"]


async def test_many_at_once(store_url: str) -> None:
    async with bench_of(store_url) as bench:
        answers = await asyncio.gather(*(bench.ask("POST", "/admin/tenants", {"name": "acme"}) for _ in range(40)))
        assert sorted(answer.status for answer in answers) == [201] + [409] * 39
        assert len(await bench.data("/admin/audit")) == 1
        await asyncio.gather(*(bench.get("/admin/tenants") for _ in range(100)))
